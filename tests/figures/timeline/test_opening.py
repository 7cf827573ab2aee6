import numpy as np
import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.figures.timeline.event_search import opening_of
from hvdprof.figures.timeline.timeline_lanes import pass_lanes
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.timeline_text import timeline_text

pytestmark = pytest.mark.heavy


def opened(path, pass_id=None):
    run = load_run(path)
    lanes = pass_lanes(run, pass_id or str(run.events["pass_id"].iloc[0]))
    return opening_of(analyze_run(run) if len(run.steps) else None, lanes), lanes


def test_it_opens_at_a_typical_step_of_the_costliest_finding(tmp_path):
    data = np.full((2, 42), 1.0)
    data[1, ::2] = 13.0
    parts = {
        "data": data,
        "forward": 5.0,
        "backward": 9.0,
        "blocked": 1.0 + data.max(axis=0) - data,
    }
    segment = SegmentSpec(parts_ms=parts | {"optimizer": 0.5}, num_steps=40, timeline=True)
    passes = [PassSpec(mode=mode, size=2, segments=(segment,)) for mode in ("throughput", "trace")]
    found, lanes = opened(write_run(tmp_path / "run", passes), "02-np2-trace-r1")
    assert "Rank 1" in found.finding
    steps = lanes.steps
    starts = dict(
        zip((steps.start_ns - lanes.origin_ns).tolist(), steps.number.tolist(), strict=True)
    )
    acting = [starts[first] for first, _ in found.steps]
    assert acting
    assert all(number % 2 == 0 for number in acting)
    inside = [one for one in found.steps if found.first_ns <= one[0] < one[1]]
    middle = (found.first_ns + found.last_ns) / 2
    (shown,) = [one for one in inside if one[0] < middle < one[1]]
    assert found.last_ns - found.first_ns == pytest.approx(3 * (shown[1] - shown[0]), rel=0.01)


def test_it_opens_where_the_timeline_of_the_engine_still_is(tmp_path):
    file = tmp_path / "timeline.json"
    file.write_text(timeline_text(SegmentSpec(timeline=True), 2, 0))
    usual, lanes = opened(file)
    third = int(np.flatnonzero(~lanes.steps.is_warmup)[2])
    lanes.written_ns[0, 1] = lanes.steps.end_ns[third]
    cut = opening_of(None, lanes)
    assert cut.last_ns < usual.first_ns
    # No step is held: it opens where it would without a timeline.
    lanes.written_ns[0] = -1
    assert opening_of(None, lanes) == usual


def test_it_says_which_steps_the_timeline_of_the_engine_holds_where_none_is_shown(tmp_path):
    segment = SegmentSpec(timeline=True)
    path = write_run(tmp_path / "run", [PassSpec(mode="trace", size=2, segments=(segment,))])
    whole, lanes = opened(path)
    assert whole.unwritten == ""
    steps = lanes.steps
    warm = np.flatnonzero(steps.is_warmup)
    lanes.written_ns[0] = steps.start_ns[warm[0]], steps.end_ns[warm[-1]]
    first, last = steps.number[warm[0]], steps.number[warm[-1]]
    cut = opening_of(None, lanes)
    assert cut.unwritten == f"its timeline holds steps {first} to {last}, no steady step"
    lanes.written_ns[0] = -1
    assert opening_of(None, lanes).unwritten == "its timeline holds no steady step"


def test_a_foreign_file_opens_at_its_steady_part(tmp_path):
    file = tmp_path / "timeline.json"
    file.write_text(timeline_text(SegmentSpec(timeline=True), 2, 0))
    found, lanes = opened(file)
    assert found.finding == ""
    assert found.first_ns > 0
    assert found.last_ns < lanes.length_ns
    steps = lanes.steps
    assert len(found.steps) == np.count_nonzero(~steps.is_warmup)


def test_a_pass_without_steps_is_shown_whole(tmp_path):
    file = tmp_path / "timeline.json"
    event = '{{"name": "NEGOTIATE_ALLREDUCE", "ph": "{}", "pid": 1, "ts": {}}}'
    names = '{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a"}}'
    text = ",\n".join((names, event.format("B", 10), event.format("E", 20)))
    file.write_text(f"[{text}]")
    found, lanes = opened(file)
    assert (found.first_ns, found.last_ns) == (0, lanes.length_ns)
    assert found.steps == []
