"""The declared lines of a recorder file, and that readers see what the writer wrote."""

import json
import math
import tempfile
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.collect.steps.header import LineWriter
from hvdprof.ingest.recorder.recorder_file import RecorderFile, SegmentRecording
from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
from hvdprof.ingest.recorder.step_phases import UNSEEN
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.model.notes import texts
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.recorder_codec import declared_kinds, from_bytes, is_step, to_bytes
from hvdprof.rundir.recording.recorder_format import (
    RECORDER_SCHEMA_VERSION,
    ClockLine,
    EndLine,
    EvaluationLine,
    HeaderLine,
    MarkLine,
    ProblemLine,
    RecorderLine,
    SessionEndLine,
    SessionLine,
    TimelineLine,
)

Line = dict[str, Any]

NS = st.integers(0, 2**61)
SHORT_NS = st.integers(0, 10**12)
TEXT = st.text(max_size=12)

VALUES: dict[object, st.SearchStrategy[Any]] = {int: NS, str: TEXT, int | None: st.none() | NS}


def lines_of(kind: type, **values: st.SearchStrategy[Any]) -> st.SearchStrategy[Line]:
    """Lines of a kind with every key that it declares, whole numbers of 63 bits."""
    hints = get_type_hints(kind)
    drawn = {
        key: VALUES[hint] if hint in VALUES else st.from_type(hint) for key, hint in hints.items()
    }
    return st.fixed_dictionaries({**drawn, **values})


@st.composite
def steps(draw: st.DrawFn, segment: str, num_tensors: int) -> list[Line]:
    """The steps of a segment, numbered upwards."""
    places = st.lists(st.integers(0, max(0, num_tensors - 1)), max_size=min(3, num_tensors))
    step = st.fixed_dictionaries(
        {
            "warmup": st.booleans(),
            "start_ns": NS,
            "dur_ns": st.integers(1, 10**12),
            "samples": st.integers(1, 10**9),
            "phases": st.lists(st.tuples(TEXT, SHORT_NS, SHORT_NS), max_size=4),
            "ready": st.lists(SHORT_NS | st.just(-1), min_size=num_tensors, max_size=num_tensors),
            "blocked": st.none() | st.lists(st.tuples(SHORT_NS, SHORT_NS), max_size=3),
        },
        optional={
            "waits": st.lists(st.tuples(TEXT, SHORT_NS | st.just(-1), NS), max_size=3),
            "evaluation": st.booleans(),
            "evaluation_blocked_ns": SHORT_NS,
            "loss": st.floats(),
            "buckets": st.lists(st.tuples(SHORT_NS, SHORT_NS, places), max_size=3),
        },
    )
    drawn: list[Line] = draw(st.lists(step, max_size=3))
    for one in drawn:
        waits = one.pop("waits", [])
        # Every blocked time has a kind, or none has.
        if waits and one["blocked"] is not None:
            num = min(len(waits), len(one["blocked"]))
            one |= {"waits": waits[:num], "blocked": one["blocked"][:num]}
    return [
        {"kind": "step", "segment": segment, "step": number, **one}
        for number, one in enumerate(drawn)
    ]


@st.composite
def segments(draw: st.DrawFn) -> list[Line]:
    """The lines of one segment."""
    name, begin_ns, end_ns = draw(TEXT), draw(NS), draw(NS)
    tensor = st.fixed_dictionaries({"name": TEXT, "size_bytes": SHORT_NS, "sent_bytes": SHORT_NS})
    tensors = draw(st.lists(tensor, max_size=4))
    sent = st.lists(SHORT_NS, min_size=len(tensors), max_size=len(tensors))
    end = draw(st.fixed_dictionaries({}, optional={"sent_bytes": sent} if tensors else {}))
    return [
        {"kind": "segment", "id": name, "monotonic_ns": begin_ns, "tensors": tensors},
        *draw(steps(name, len(tensors))),
        draw(lines_of(EvaluationLine, segment=st.just(name))),
        draw(lines_of(MarkLine)),
        {"kind": "segment_end", "id": name, "monotonic_ns": end_ns, **end},
    ]


@st.composite
def recordings(draw: st.DrawFn) -> list[Line]:
    """The lines of a whole file, of every kind."""
    version = st.just(RECORDER_SCHEMA_VERSION)
    listed = draw(st.lists(segments(), max_size=3, unique_by=lambda lines: lines[0]["id"]))
    return [
        draw(lines_of(HeaderLine, schema_version=version)),
        draw(lines_of(SessionLine)),
        draw(lines_of(ClockLine)),
        draw(lines_of(TimelineLine)),
        *(line for lines in listed for line in lines),
        draw(lines_of(SessionEndLine)),
        draw(lines_of(ProblemLine)),
        draw(lines_of(EndLine)),
    ]


def of_kind(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["kind"] == kind]


def written_and_read(lines: list[Line]) -> tuple[RecorderFile, RankState]:
    with tempfile.TemporaryDirectory() as folder:
        paths = PassPaths(Path(folder))
        writer = LineWriter(paths.recorder_file(0))
        for line in lines:
            writer.write(line)
        writer.close()
        progress = PassProgress(paths)
        progress.update()
        return read_recorder_file(paths.recorder_file(0)), progress.ranks[0]


def text_of(value: Any) -> Any:
    """A value as UTF-8 can hold it."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def check_steps(recording: SegmentRecording, lines: list[Line]) -> None:
    table = recording.step_table()
    keys = ("step", "warmup", "start_ns", "dur_ns", "samples")
    assert table[:, :5].tolist() == [[int(line[key]) for key in keys] for line in lines]
    ready = recording.ready_table() if recording.tensors else recording.ready_table()[:0]
    assert ready.tolist() == [line["ready"] for line in lines if recording.tensors]
    losses = [line.get("loss", math.nan) for line in lines]
    assert [repr(loss) for loss in recording.losses] == [repr(loss) for loss in losses]
    blocked = [line.get("evaluation_blocked_ns", UNSEEN) for line in lines]
    assert recording.evaluation_blocked_ns.tolist() == blocked
    names = list(recording.part_names)
    seen = [
        (row, names[code], offset, dur)
        for (row, offset, dur), code in zip(
            recording.part_table().tolist(), recording.part_codes, strict=True
        )
    ]
    assert seen == [
        (row, *piece)
        for row, line in enumerate(lines)
        for piece in (
            *((name, offset, dur) for name, offset, dur in text_of(line["phases"])),
            *(("blocked", offset, dur) for offset, dur in line["blocked"] or ()),
        )
    ]
    kinds = list(recording.wait_kinds)
    waits = [
        (row, kinds[code], offset, dur, -1 if submitted == UNSEEN else submitted, num_ranks)
        for (row, offset, dur, submitted, num_ranks), code in zip(
            recording.wait_table().tolist(), recording.wait_codes, strict=True
        )
    ]
    assert waits == [
        (row, text_of(kind), *blocked, submitted, num_ranks)
        for row, line in enumerate(lines)
        for (kind, submitted, num_ranks), blocked in zip(
            line.get("waits", ()), line["blocked"] or () if "waits" in line else (), strict=True
        )
    ]
    buckets = [
        (row, *bucket) for row, line in enumerate(lines) for bucket in line.get("buckets", ())
    ]
    assert recording.bucket_table().tolist() == [
        [row, offset, dur, len(members)] for row, offset, dur, members in buckets
    ]
    assert list(recording.bucket_members) == [one for *_, members in buckets for one in members]


@pytest.mark.heavy
@given(recordings())
def test_readers_see_what_the_writer_wrote(lines: list[Line]) -> None:
    file, state = written_and_read(lines)

    (problem,) = of_kind(lines, "problem")
    assert list(texts(file.problems)) == [f"the recorder reported: {text_of(problem['message'])}"]
    header = text_of(lines[0])
    # Numbers that are unknown are missing, as those of a damaged header are.
    assert file.header == {key: value for key, value in header.items() if value is not None}
    assert state.header == header
    assert file.session == text_of(lines[1])
    assert file.session_end == text_of(of_kind(lines, "session_end")[0])
    (clock,) = file.exchanges
    assert (clock.monotonic_ns, clock.offset_ns, clock.error_ns, clock.method) == (
        *(lines[2][key] for key in ("monotonic_ns", "offset_ns", "error_ns")),
        text_of(lines[2]["method"]),
    )
    (switch,) = file.timeline
    assert (switch.monotonic_ns, switch.wall_ns) == (lines[3]["monotonic_ns"], lines[3]["wall_ns"])
    marks = of_kind(lines, "mark")
    assert [(one.name, one.monotonic_ns) for one in file.marks] == [
        (text_of(one["name"]), one["monotonic_ns"]) for one in marks
    ]
    assert file.ended
    assert state.finished
    assert state.ended == set(file.segments)


@pytest.mark.heavy
@given(segments())
def test_segments_and_steps_are_read_as_written(lines: list[Line]) -> None:
    file, state = written_and_read(lines)

    (recording,) = file.segments.values()
    tensors = lines[0]["tensors"]
    assert recording.tensors == [text_of(tensor["name"]) for tensor in tensors]
    assert recording.size_bytes == sum(tensor["size_bytes"] for tensor in tensors)
    declared = [tensor["sent_bytes"] for tensor in tensors]
    assert recording.sent_of == lines[-1].get("sent_bytes", declared)
    check_steps(recording, of_kind(lines, "step"))
    (last,) = of_kind(lines, "evaluation")
    for key, value in recording.last_evaluation._asdict().items():
        assert value == (UNSEEN if last[key] is None else last[key])
    assert state.num_steps == recording.num_steps


def test_every_kind_is_declared_with_its_keys() -> None:
    kinds = {kind.name: kind for kind in declared_kinds()}
    assert len(kinds) == len(get_args(RecorderLine))
    for kind in kinds.values():
        assert kind.doc.endswith(".")
        for key in kind.keys:
            assert key.doc, f"{kind.name}.{key.name}"
            assert not key.name.endswith("_ns") or key.unit == "ns", f"{kind.name}.{key.name}"
            assert not key.name.endswith("_bytes") or key.unit == "bytes"
    optional = [
        (one.name, key.name) for one in kinds.values() for key in one.keys if key.is_optional
    ]
    assert optional == [
        ("header", "pid_namespace"),
        ("header", "gpu"),
        ("header", "backend"),
        ("header", "engine"),
        ("segment", "totals"),
        ("segment", "process_time_ns"),
        ("step", "waits"),
        ("step", "buckets"),
        ("step", "evaluation"),
        ("step", "evaluation_blocked_ns"),
        ("step", "profiled"),
        ("step", "loss"),
        ("window", "evaluation_ns"),
        ("window", "evaluation_blocked_ns"),
        ("window", "profiled"),
        ("window", "loss"),
        ("segment_end", "process_time_ns"),
        ("segment_end", "sent_bytes"),
        ("problem", "about"),
    ]


def test_a_step_is_recognised_without_parsing_it() -> None:
    mark: MarkLine = {"kind": "mark", "name": '"kind":"step"', "monotonic_ns": 5}
    assert is_step(b'{"kind":"step","segment":"a"')
    assert is_step(b'{"kind": "step", "segment": "a"')
    assert not is_step(to_bytes({"kind": "end", "monotonic_ns": 5}))
    assert from_bytes(to_bytes(mark)) == mark


@pytest.mark.parametrize(
    "text", [b"", b"[1]", b"5", b'{"kind": 5}', b'{"step": 1}', b"\xff\xfe", b'{"kind": "step"']
)
def test_what_is_no_line_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        from_bytes(text)
