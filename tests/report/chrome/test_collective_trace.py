import io
import json
import subprocess
import sys

import pytest

from hvdprof.api import load_run, nsys_events
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.report.chrome.chrome_trace import write_trace
from hvdprof.report.chrome.collective_trace import collective_content, nsys_content
from tests.builders.flight_dumps import STARTED_NS, dump, write_dumps
from tests.builders.nsys_exports import DOMAIN, MARK, Range, write_export
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.trace_format import checked_trace, drawing, named_threads
from tests.ingest.logs.test_nccl_inspector import START_US, header, kernel_times, perf, text

SECOND_NS = 10**9

MS = 1_000_000
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
KERNELS = [
    (20 * MS, 30 * MS, 0, "gemm"),
    (5 * MS, 15 * MS, 0, ALLREDUCE),
    (2 * MS, 10 * MS, 0, "gemm"),
    (9 * MS, 12 * MS, 0, "copy"),
    (3 * MS, 9 * MS, 1, "gemm"),
]
RANGES = [
    Range(0, None, "never ended", kind=60),
    Range(1 * MS, 31 * MS, "step 1"),
    Range(2 * MS, 8 * MS, "forward"),
    Range(4 * MS, 4 * MS, "checkpoint", kind=MARK),
    Range(5 * MS, 6 * MS, "ncclAllReduce", domain=1, payload=4096),
    Range(0, None, "NCCL", kind=DOMAIN, domain=1),
]


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


def trace_of(path):
    text = io.StringIO()
    with nsys_events(path) as source:
        write_trace(nsys_content(source, path.name), text)
    return checked_trace(text.getvalue())


def test_ranges_nest_and_kernels_that_overlap_have_lanes_of_their_own(tmp_path):
    trace = trace_of(write_export(tmp_path / "a.sqlite", KERNELS, RANGES))
    assert drawing(trace) == "\n".join(
        [
            "GPU 0, GPU 1, pid 4242 / NVTX ranges, thread 7",
            "    0.000  +31.000  never ended (end not in the file)",
            "    1.000  +30.000    step 1",
            "    2.000   +6.000      forward",
            "    4.000        |        checkpoint",
            "GPU 0, GPU 1, pid 4242 / NVTX NCCL, thread 7",
            "    5.000   +1.000  ncclAllReduce",
            "GPU 0, GPU 1, pid 4242 / GPU 0 stream 7: computation",
            "    2.000   +8.000  gemm",
            "   20.000  +10.000  gemm",
            "GPU 0, GPU 1, pid 4242 / GPU 0 stream 7: computation (2)",
            "    9.000   +3.000  copy",
            "GPU 0, GPU 1, pid 4242 / GPU 1 stream 7: computation",
            "    3.000   +6.000  gemm",
            "GPU 0, GPU 1, pid 4242 / GPU 0 stream 7: NCCL",
            f"    5.000  +10.000  {ALLREDUCE}",
        ]
    )
    args = {one["name"]: one.get("args") for one in trace["traceEvents"]}
    assert args["ncclAllReduce"] == {"payload": 4096}
    assert args[ALLREDUCE] == {"collective": "ALLREDUCE"}
    assert args["gemm"] is None


def test_a_hundred_ranges_that_overlap_all_have_lanes(tmp_path):
    ranges = [Range(one, 1000 + one, f"range {one}", kind=60) for one in range(120)]
    trace = trace_of(write_export(tmp_path / "a.sqlite", KERNELS[:1], ranges))
    lanes = named_threads(trace)
    assert len(lanes) == 121
    assert "GPU 0, pid 4242 / NVTX ranges, thread 7 (120)" in lanes.values()


_PEAK = """
import sys, tracemalloc
from pathlib import Path
from hvdprof.api import nsys_events
from hvdprof.report.chrome.collective_trace import nsys_content
path = Path(sys.argv[1])
tracemalloc.start()
with nsys_events(path) as source:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    number = sum(1 for _ in nsys_content(source, path.name).events)
    print(number, tracemalloc.get_traced_memory()[1] - before)
"""


@pytest.mark.heavy
def test_memory_does_not_grow_with_the_events(tmp_path):
    many = [(start, start + 5, 0, "gemm") for start in range(0, 200_000, 10)]
    path = write_export(tmp_path / "a.sqlite", many)
    # In a process of its own: threads that other tests leave allocate, too.
    command = [sys.executable, "-c", _PEAK, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    number, peak = map(int, ended.stdout.split())
    assert number == len(many)
    # One event alone takes more than 200 bytes.
    assert peak < 10 * len(many)


def test_ranges_alone_are_written(tmp_path):
    trace = trace_of(write_export(tmp_path / "a.sqlite", (), RANGES[1:3]))
    assert set(named_threads(trace).values()) == {"pid 4242 / NVTX ranges, thread 7"}


def test_kernels_of_an_older_export_have_no_process(tmp_path):
    trace = trace_of(write_export(tmp_path / "a.sqlite", KERNELS[:1], with_process=False))
    (name,) = named_threads(trace).values()
    assert name == "GPU 0, process not recorded / GPU 0 stream 7: computation"


def test_an_infinite_payload_is_left_out(tmp_path):
    ranges = [Range(1, 2, "a", payload=float("inf")), Range(3, 4, "b", payload=0.5)]
    trace = trace_of(write_export(tmp_path / "a.sqlite", (), ranges))
    args = {one["name"]: one.get("args") for one in trace["traceEvents"]}
    assert args["a"] is None
    assert float(args["b"]["payload"]) == 0.5


def test_texts_as_times_end_in_one_message(tmp_path):
    path = write_export(tmp_path / "a.sqlite", (), [Range("x", "y", "a")])
    with pytest.raises(UnreadableInputError, match="no numbers"):
        trace_of(path)


@pytest.mark.heavy
@needs_corpus
def test_an_export_of_two_gpus():
    trace = trace_of(CORPUS / "imports" / "nsys" / "mfu_2gpu_before.sqlite")
    drawn = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    assert len(drawn) == 4010 + 18656 + 462
    assert sum(one["name"] == "ncclDevKernel_SendRecv" for one in drawn) == 66
    nvtx = [one for one in drawn if one["name"].startswith("nccl") and "cname" not in one]
    assert sum(one["name"] == "ncclSend" for one in nvtx) == 132
    lanes = set(named_threads(trace).values())
    assert "GPU 0, pid 144 (python3) / GPU 0 stream 7: NCCL" in lanes
