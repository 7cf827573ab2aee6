import json

import pytest

from hvdprof.api import load_run
from hvdprof.errors import UsageError
from hvdprof.report.chrome.chrome_trace import write_trace
from hvdprof.report.chrome.collective_trace import collective_content
from tests.builders.flight_dumps import STARTED_NS, dump, write_dumps
from tests.ingest.logs.test_nccl_inspector import START_US, header, kernel_times, perf, text

SECOND_NS = 10**9


@pytest.fixture
def job(tmp_path):
    """Two ranks complete call 1; rank 1 never makes call 3, for which rank 0 waits."""
    first, second = dump(enqueued=3, completed=1), dump(enqueued=2, completed=1, late_ns=1000)
    return load_run([write_dumps(tmp_path / "job", {0: first, 1: second})])


def events(content):
    return [
        (one.lane.process, one.args.get("seq"), one.name, one.start_ns - STARTED_NS, one.dur_ns)
        for one in content.events
    ]


def test_each_rank_has_its_calls_from_their_submission_on(job):
    content = collective_content(job)

    assert content.processes == {0: "rank 0", 1: "rank 1"}
    assert [lane.name for lane in content.lanes] == ["group 0", "group 0"]
    assert events(content) == [
        # Dumps do not hold the end of a completed call.
        (0, 1, "ALLREDUCE", SECOND_NS, None),
        (1, 1, "ALLREDUCE", SECOND_NS + 1000, None),
        (0, 2, "ALLREDUCE (not completed)", 2 * SECOND_NS, SECOND_NS),
        (1, 2, "ALLREDUCE (not completed)", 2 * SECOND_NS + 1000, SECOND_NS - 1000),
        (0, 3, "ALLREDUCE (not completed, on this rank alone)", 3 * SECOND_NS, 0),
    ]


def test_calls_in_progress_at_once_have_lanes_of_their_own(tmp_path):
    pending = dump(enqueued=3, completed=0)

    content = collective_content(load_run([write_dumps(tmp_path / "job", {0: pending})]))

    assert [lane.name for lane in content.lanes] == ["group 0", "group 0 (2)"]
    (first, second, third) = events(content)
    assert first[-1] == 2 * SECOND_NS
    assert second[-1] == SECOND_NS
    assert third[-1] == 0


def test_the_file_is_a_chrome_trace(job, tmp_path):
    path = tmp_path / "trace.json"

    with path.open("w") as file:
        write_trace(collective_content(job), file)

    written = json.loads(path.read_text())
    drawn = [one for one in written["traceEvents"] if one["ph"] != "M"]
    assert [one["ph"] for one in drawn] == ["i", "i", "X", "X", "X"]
    assert drawn[0]["ts"] == 0
    assert drawn[0]["args"] == {
        "name": "nccl:all_reduce",
        "seq": 1,
        "size_bytes": 4096,
        "dtype": "Float",
        "state": "completed",
        "step": -1,
        "matched": True,
    }
    assert not drawn[-1]["args"]["matched"]
    assert written["otherData"]["np"] == 2


def test_another_job_than_those_in_the_files_is_refused(job):
    with pytest.raises(UsageError, match="No job 'other'"):
        collective_content(job, "other")


def record(rank, seq, start, stop, *, group="0xab", size=2, **more):
    head = header(rank, size)
    head["header"]["id"] = group
    return {**head, "coll_perf": perf(seq, **kernel_times(start, stop), **more)}


def inspected(folder, **logs):
    folder.mkdir()
    for name, records in logs.items():
        (folder / f"{name}.log").write_text(text(*records))
    return collective_content(load_run(folder))


def kernels(content):
    return [
        (one.lane.process, one.lane.name, one.name, one.start_ns // 1000 - START_US, one.dur_ns)
        for one in content.events
    ]


def test_each_log_of_the_inspector_is_a_rank_with_its_kernels_in_time(tmp_path):
    content = inspected(
        tmp_path / "logs",
        pid9=[record(0, 1, 0, 100), record(0, 2, 90, 200)],
        pid7=[record(1, 1, 40, 100, coll_algo="RING")],
    )

    assert content.processes == {0: "rank 0 (node-1)", 1: "rank 1 (node-1)"}
    assert kernels(content) == [
        (0, "group 0xab", "ALLREDUCE", 0, 100_000),
        (1, "group 0xab", "ALLREDUCE", 40, 60_000),
        (0, "group 0xab (2)", "ALLREDUCE (on this rank alone)", 90, 110_000),
    ]
    assert content.about["np"] == 2
    assert content.about["recorder"] == "nccl-inspector"
    assert content.about["largest_clock_error_us"] == 0


def test_a_call_of_the_inspector_has_the_bandwidth_of_its_own_record(tmp_path):
    content = inspected(
        tmp_path / "logs",
        pid9=[record(0, 1, 0, 100), record(0, 2, 200, 300, coll_busbw_gbs=20.0)],
        pid7=[record(1, 1, 40, 100, coll_busbw_gbs=25.0)],
    )

    found = [(one.lane.process, one.args["seq"], one.args["busbw_gb_s"]) for one in content.events]
    assert found == [(0, 1, 15.0), (1, 1, 25.0), (0, 2, 20.0)]


@pytest.mark.heavy
def test_a_process_is_named_by_its_rank_in_the_largest_communicator(tmp_path):
    logs = {
        f"pid{rank}": [
            record(rank % 2, 1, 0, 100, group=f"0x{rank // 2}"),
            record(rank, 1, 10, 110, group="0xff", size=4, coll="AllGather"),
        ]
        for rank in range(4)
    }

    content = inspected(tmp_path / "logs", **logs)

    assert list(content.processes.values()) == [f"rank {rank} (node-1)" for rank in range(4)]
    assert {lane.name for lane in content.lanes if lane.process == 3} == {"group 0x1", "group 0xff"}


def test_ranks_in_one_log_have_lanes_of_their_own(tmp_path):
    content = inspected(tmp_path / "logs", all=[record(rank, 1, rank, 100) for rank in (0, 1)])

    assert [(lane.process, lane.name) for lane in content.lanes] == [
        (0, "group 0xab"),
        (1, "group 0xab"),
    ]


def test_logs_without_kernel_times_name_the_setting(tmp_path):
    with pytest.raises(UsageError, match="without kernel times") as raised:
        inspected(tmp_path / "logs", one=[{**header(), "coll_perf": perf(1)}])

    assert "NCCL_INSPECTOR_DUMP_VERBOSE=1" in str(raised.value.hint)
