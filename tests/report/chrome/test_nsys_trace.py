import io
import tracemalloc

import pytest

from hvdprof.api import nsys_events
from hvdprof.errors import UnreadableInputError
from hvdprof.report.chrome.chrome_trace import write_trace
from hvdprof.report.chrome.nsys_trace import nsys_content
from tests.builders.nsys_exports import DOMAIN, MARK, Range, write_export
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.trace_format import checked_trace, drawing, named_threads

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


@pytest.mark.heavy
def test_memory_does_not_grow_with_the_events(tmp_path):
    many = [(start, start + 5, 0, "gemm") for start in range(0, 200_000, 10)]
    path = write_export(tmp_path / "a.sqlite", many)
    tracemalloc.start()
    with nsys_events(path) as source:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        assert sum(1 for _ in nsys_content(source, path.name).events) == len(many)
        _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One event alone takes more than 200 bytes.
    assert peak - before < 10 * len(many)


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
