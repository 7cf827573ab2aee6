"""What one trace holds: rank, clock, annotations, and collectives with their times and payload."""

import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.ingest.kineto.collective_calls import collective_of, element_bytes, shaped_payload
from hvdprof.ingest.kineto.trace_file import TraceFile, read_trace_file
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.profiler_traces import (
    COMMUNICATION,
    TracedJob,
    annotation,
    kernel,
    operation,
    write_traces,
)


def _read(tmp_path: Path, events: list[dict[str, Any]], **header: object) -> TraceFile:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, **header}))
    return read_trace_file(path)


def test_a_trace_names_rank_job_host_and_clock(tmp_path: Path) -> None:
    (path,) = write_traces(tmp_path, TracedJob(size=4), [3], packed=True)
    file = read_trace_file(path)
    assert (file.rank, file.size, file.backend, file.host) == (3, 4, "gloo", "node0")
    assert file.zero_ns == 1_790_857_026_000_000_000
    assert file.notes == []
    assert not file.on_gpu


def test_gloo_calls_have_submission_start_end_and_payload(tmp_path: Path) -> None:
    (path,) = write_traces(tmp_path, TracedJob(num_steps=3), [0])
    calls = read_trace_file(path).calls
    assert len(calls) == 3
    first = calls[0]
    assert (first.collective, first.name, first.dtype) == ("ALLREDUCE", "gloo:all_reduce", "float")
    assert first.size_bytes == 1000
    assert first.submitted_ns == first.arrival_ns == 1_008_999_000
    assert first.end_ns == 1_010_000_000


def test_a_call_submitted_before_the_recording_has_no_submission(tmp_path: Path) -> None:
    events = [
        annotation("gloo:all_reduce", 10, 5),
        operation("c10d::allreduce_", 20, 1),
        annotation("gloo:all_reduce", 22, 5),
    ]
    first, second = _read(tmp_path, events).calls
    assert first.submitted_ns is None
    assert first.arrival_ns == 10_000
    assert second.submitted_ns == 20_000


def test_cuda_kernels_are_linked_with_the_submission_that_names_them(tmp_path: Path) -> None:
    (path,) = write_traces(tmp_path, TracedJob(backend="nccl", num_steps=3), [0])
    file = read_trace_file(path)
    assert file.on_gpu
    assert [call.seq for call in file.calls] == [10, 11, 12]
    first = file.calls[0]
    assert (first.group, first.group_size, first.size_bytes) == ("default_pg", 2, 1000)
    assert first.arrival_ns == first.start_ns == 1_009_000_000
    assert first.submitted_ns == 1_008_999_000
    assert len(file.launches[0]) == 9


def test_rccl_kernels_name_nothing_and_the_annotation_on_the_gpu_links_them(
    tmp_path: Path,
) -> None:
    args = {"External id": 5, "Collective name": "allreduce", "dtype": "BFloat16",
            "In msg nelems": 10, "Out msg nelems": 10, "Group size": 8}  # fmt: skip
    on_gpu = annotation("nccl:all_reduce", 100, 7, COMMUNICATION, {"External id": 6})
    events = [
        operation("record_param_comms", 10, 9, args),
        annotation("nccl:all_reduce", 12, 3, args={"External id": 6}),
        on_gpu | {"cat": "gpu_user_annotation"},
        kernel("ncclDevKernel_Generic(x)", 100, 7, COMMUNICATION, {"correlation": 1}),
    ]
    (call,) = _read(tmp_path, events).calls
    assert (call.start_ns, call.end_ns, call.size_bytes) == (100_000, 107_000, 20)


def test_kernels_of_2023_stand_for_themselves(tmp_path: Path) -> None:
    start = 1_682_725_898_236_567
    events = [
        kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", start, 30, 84, {"stream": 84})
    ]
    file = _read(tmp_path, events, distributedInfo={"rank": 0, "world_size": 128})
    (call,) = file.calls
    assert (call.collective, call.name) == (
        "SENDRECV",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
    )
    assert call.size_bytes is None
    assert file.zero_ns == 0


def test_times_since_boot_without_a_base_are_on_no_clock(tmp_path: Path) -> None:
    assert _read(tmp_path, [annotation("ProfilerStep#1", 10, 5)]).zero_ns is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c10d::_reduce_scatter_base_", "REDUCESCATTER"),
        ("c10d::allreduce_", "ALLREDUCE"),
        ("nccl:_all_gather_base", "ALLGATHER"),
        ("ncclDevKernel_AllGather_RING_LL(x)", "ALLGATHER"),
        ("alltoallv", "ALLTOALL"),
        ("c10d::broadcast_", "BROADCAST"),
        ("ncclDevKernel_Generic(x)", ""),
        ("wait", ""),
    ],
)
def test_names_say_the_collective(name: str, expected: str) -> None:
    assert collective_of(name) == expected


def test_payload_of_shapes_and_types() -> None:
    assert shaped_payload({"Input Dims": [[3, 4]], "Input type": ["c10::BFloat16"]}) == (
        "c10::BFloat16",
        24,
    )
    assert shaped_payload({"Input Dims": [[]], "Input type": ["float"]}) == ("float", 4)
    assert shaped_payload({"Input Dims": [[]], "Input type": ["TensorList"]}) == ("", None)
    assert shaped_payload({}) == ("", None)
    assert element_bytes("Float8_e4m3fn") == 1
    assert element_bytes("mystery") is None


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize(
    ("name", "size", "calls"),
    [
        ("hta_nccl_data_rank0of2", 2, {("ALLREDUCE", 15, True), ("BROADCAST", 6, True)}),
        ("hta_sampled_rank0", 128, {("SENDRECV", 10, False)}),
        ("tracelens_resnet_act_checkpoint", 8, {("ALLREDUCE", 6, True), ("BROADCAST", 6, True)}),
    ],
)
def test_traces_of_cuda_and_rocm(name: str, size: int, calls: set[tuple[str, int, bool]]) -> None:
    file = read_trace_file(CORPUS / "imports" / "kineto" / f"{name}.json.gz")
    assert (file.rank, file.size, file.backend) == (0, size, "nccl")
    assert all(call.end_ns is not None for call in file.calls)
    found = {call.collective for call in file.calls}
    assert calls == {
        (
            kind,
            sum(call.collective == kind for call in file.calls),
            all(call.size_bytes is not None for call in file.calls if call.collective == kind),
        )
        for kind in found
    }
