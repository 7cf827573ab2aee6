"""Traces of one job, on one clock, with steps of the same number; other sets are refused."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from hvdprof.api import all_tables, load_run
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.kineto.trace_file import read_trace_file
from hvdprof.ingest.kineto.trace_set import TraceSet, trace_set
from hvdprof.model.notes import texts
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, DDP_ENGINE
from tests.builders.profiler_traces import TracedJob, write_traces

JOB = TracedJob(num_steps=4)


def _set(*paths: Path) -> TraceSet:
    return trace_set([(path, read_trace_file(path)) for path in paths])


def _refused(*paths: Path) -> str:
    with pytest.raises(UnreadableInputError) as caught:
        _set(*paths)
    assert caught.value.hint
    return caught.value.message


def test_all_ranks_make_one_job_whose_collectives_match(tmp_path: Path) -> None:
    found = _set(*write_traces(tmp_path, JOB))
    assert (found.size, found.is_complete, found.missing) == (2, True, [])
    assert [ids.tolist() for ids in found.matching.ids.values()] == [[0, 1, 2, 3]] * 2
    assert [step.number for step in found.ranks[1].steps.steps] == [2, 3, 4, 5]
    assert found.notes == []


def test_only_traces_that_show_ddp_are_of_ddp(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, JOB)
    assert _set(*paths).engine == DDP_ENGINE
    for path in paths:
        path.write_text(
            path.read_text().replace("DistributedDataParallel.forward", "## forward ##")
        )
    assert _set(*paths).engine == COLLECTIVES_ENGINE
    text = (
        paths[0]
        .read_text()
        .replace(
            "autograd::engine::evaluate_function: MmBackward0",
            "torch.distributed.ddp.reducer::copy_bucket_to_grad",
        )
    )
    paths[0].write_text(text)
    assert _set(*paths).engine == DDP_ENGINE


def test_a_rank_alone_is_a_part_of_its_job(tmp_path: Path) -> None:
    found = _set(*write_traces(tmp_path, JOB, [1]))
    assert (found.size, found.is_complete, found.missing) == (2, False, [0])


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    first = write_traces(tmp_path / "a", JOB, [0])
    other = dataclasses.replace(JOB, num_steps=5)
    message = _refused(*first, *write_traces(tmp_path / "b", other, [0]))
    assert "These 2 traces are of 2 recordings" in message
    assert message.count("- rank 0 of 2 on node0, 2026-10-01 12:17:07 UTC, ") == 2


def test_traces_of_jobs_of_other_sizes_are_refused(tmp_path: Path) -> None:
    first = write_traces(tmp_path / "a", JOB, [0])
    other = write_traces(tmp_path / "b", TracedJob(size=8, num_steps=4), [1])
    message = _refused(*first, *other)
    assert "none of them has a trace of every rank" in message
    assert "- rank 1 of 8 on node0" in message


def test_a_rank_outside_its_job_is_refused(tmp_path: Path) -> None:
    (path,) = write_traces(tmp_path, JOB, [0])
    path.write_text(path.read_text().replace('"world_size": 2', '"world_size": 0'))
    assert "rank 0 of 0" in _refused(path)


def test_traces_of_other_times_are_refused(tmp_path: Path) -> None:
    first = write_traces(tmp_path / "a", JOB, [0])
    later = dataclasses.replace(JOB, shift_us=lambda rank: 60e6)
    message = _refused(*first, *write_traces(tmp_path / "b", later, [1]))
    assert "2026-10-01 12:17:07 UTC" in message
    assert "2026-10-01 12:18:07 UTC" in message


def test_traces_whose_collectives_differ_are_refused(tmp_path: Path) -> None:
    first, second = write_traces(tmp_path, JOB)
    second.write_text(second.read_text().replace("all_reduce", "broadcast"))
    assert "8 of 8 collectives differ" in _refused(first, second)


def test_a_trace_that_breaks_off_is_left_out_and_named(tmp_path: Path) -> None:
    first, second = write_traces(tmp_path, JOB)
    text = second.read_text()
    second.write_text(text[: len(text) // 2])
    found = _set(first, second)
    assert found.missing == [1]
    assert found.left_out == {
        second: f"{second}: it breaks off: the list of events has no end; it is left out."
    }
    assert "breaks off" in _refused(second)


def test_ranks_come_from_names_where_the_traces_have_none(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, JOB)
    for path in paths:
        trace = json.loads(path.read_text())
        del trace["distributedInfo"]
        path.write_text(json.dumps(trace))
    assert sorted(_set(*paths).ranks) == [0, 1]
    unnamed = [path.rename(path.with_name(f"{number}.json")) for number, path in enumerate(paths)]
    assert "does not say which rank wrote it" in _refused(*unnamed)
    assert list(_set(unnamed[0]).ranks) == [0]


def test_steps_without_marks_are_inferred_alike_on_all_ranks(tmp_path: Path) -> None:
    found = _set(*write_traces(tmp_path, dataclasses.replace(JOB, marked=False, num_steps=5)))
    for one in found.ranks.values():
        assert [step.number for step in one.steps.steps] == [0, 1, 2, 3]
        assert {step.end_ns - step.start_ns for step in one.steps.steps} == {10_500_000}
    assert "inferred from optimizer updates" in texts(found.notes)[0]


def test_the_same_mark_on_the_gpu_counts_once(tmp_path: Path) -> None:
    (path,) = write_traces(tmp_path, dataclasses.replace(JOB, backend="nccl"), [0])
    trace = json.loads(path.read_text())
    marks = [one for one in trace["traceEvents"] if one["name"].startswith("ProfilerStep#")]
    trace["traceEvents"] += [mark | {"cat": "gpu_user_annotation"} for mark in marks]
    path.write_text(json.dumps(trace))
    assert len(_set(path).ranks[0].steps.steps) == 4


def test_hosts_that_differ_have_an_unknown_clock_error(tmp_path: Path) -> None:
    # Two collectives are too few to relate the clocks.
    job = dataclasses.replace(JOB, host=lambda rank: f"node{rank}", num_steps=2)
    found = _set(*write_traces(tmp_path, job))
    assert [one.clock_method for one in found.ranks.values()] == ["same-clock", "wall-clock"]
    assert found.ranks[1].clock_error_ns == 1_000_000_000


def test_a_trace_without_steps_and_collectives_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "tid": 1, "cat": "cpu_op"}]}')
    assert "neither steps nor collectives" in _refused(path)


@pytest.mark.heavy
@pytest.mark.parametrize("key", ["ts", "dur", "tid", "External id", "correlation", "In msg nelems"])
@pytest.mark.parametrize("digits", ["9" * 19, "-" + "9" * 25, "9" * 5000, "1e999"])
def test_numbers_beyond_64_bits_cost_their_event_alone(
    tmp_path: Path, key: str, digits: str
) -> None:
    paths = write_traces(tmp_path, TracedJob(num_steps=5, backend="nccl"))
    text = paths[0].read_text()
    place = [found.span(1) for found in re.finditer(rf'"{key}": ([\d.]+)', text)]
    for begin, end in reversed(place[len(place) // 2 : len(place) // 2 + 3]):
        text = text[:begin] + digits + text[end:]
    paths[0].write_text(text)
    tables = all_tables(load_run(tmp_path))
    assert len(tables["steps"]) >= 6


@pytest.mark.heavy
def test_the_header_may_hold_any_number(tmp_path: Path) -> None:
    for path in write_traces(tmp_path, TracedJob(num_steps=5)):
        text = path.read_text()
        path.write_text(re.sub(r'("baseTimeNanoseconds": )\d+', rf"\g<1>{'9' * 30}", text))
    assert len(load_run(tmp_path).table("steps")) > 0
