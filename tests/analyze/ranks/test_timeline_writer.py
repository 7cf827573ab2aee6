import numpy as np
import pytest

from hvdprof.analyze.ranks.stragglers import without_timeline_writer
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.model.tables.waiting_tables import STRAGGLERS
from tests.builders.analysis import analysis_of
from tests.builders.declared_rows import declared_rows
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts


def launch(pass_id, mode, **values):
    row = {"pass_id": pass_id, "segment": "s", "mode": mode, "engine": "horovod", "model": "mnist"}
    return row | {"size": 2, "compression": "none", "reduction": "average"} | values


def late(pass_id, pattern, rank=0):
    row = {"pass_id": pass_id, "segment": "s", "rank": rank, "pattern": pattern, "phase": "forward"}
    return row | {"phase_share": 0.9, "lateness_ns": 2e6}


def patterns(rows, launches):
    own = without_timeline_writer(
        declared_rows(STRAGGLERS, *rows), declared_rows(SEGMENTS, *launches)
    )
    return list(zip(own["pass_id"], own["rank"], own["pattern"], own["phase"], strict=True))


TRACE, FREE = launch("t", "trace"), launch("f", "throughput")


@pytest.mark.parametrize("pattern", ["persistent", "from-step", "irregular"])
def test_rank_0_beside_the_timelines_writer_is_no_straggler(pattern):
    rows = [late("f", "none"), late("t", pattern), late("t", "persistent", rank=1)]

    assert patterns(rows, [TRACE, FREE]) == [
        ("f", 0, "none", "forward"),
        ("t", 0, "timeline-writer", ""),
        ("t", 1, "persistent", "forward"),
    ]


@pytest.mark.parametrize(
    ("rows", "launches"),
    [
        ([late("f", "persistent"), late("t", "persistent")], [TRACE, FREE]),
        ([late("t", "periodic")], [TRACE, FREE]),
        ([late("t", "persistent")], [launch("t", "trace", engine="ddp"), FREE]),
        ([late("t", "rotating")], [TRACE, FREE]),
    ],
    ids=["also without the timeline", "every k-th step", "DDP has no writer", "any rank"],
)
def test_what_the_writer_does_not_explain_stays(rows, launches):
    assert [row[2] for row in patterns(rows, launches)] == [row["pattern"] for row in rows]


def test_another_cell_without_the_timeline_proves_nothing():
    other = launch("f", "throughput", size=4)
    rows = [late("f", "persistent"), late("t", "persistent")]

    assert [row[2] for row in patterns(rows, [TRACE, other])] == ["persistent", "timeline-writer"]


def traced(extra_ms):
    parts = {
        name: np.full((2, 1), float(length)) for name, length in typical_parts(10.0, 2.0).items()
    }
    parts["backward"][0] += extra_ms
    parts["blocked"][1] += extra_ms
    return PassSpec(size=2, mode="trace", segments=[SegmentSpec(timeline=True, parts_ms=parts)])


@pytest.mark.heavy
def test_no_output_of_a_run_names_it(tmp_path):
    free = [
        PassSpec(size=2, repeat=repeat, segments=[SegmentSpec(parts_ms=typical_parts(10.0, 2.0))])
        for repeat in (1, 2)
    ]
    analysis = analysis_of(tmp_path / "run", [*free, traced(4.0)])

    own = analysis.table("stragglers").set_index(["pass_id", "rank"])["pattern"]
    assert own["03-np2-trace-r1", 0] == "timeline-writer"
    assert set(own.drop(("03-np2-trace-r1", 0))) == {"none"}
    assert not analysis.findings["id"].str.contains("straggler").any()
    assert "straggler" not in set(analysis.table("waterfall")["term"])
