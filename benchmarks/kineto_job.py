"""Synthetic profiler traces of all ranks of one job on GPUs, in the layout that Kineto writes.

As in public traces of ResNet under DDP: one kernel has about five operations of the host, three
calls of CUDA's runtime and their flow events, 3.6 kB in all. The operations of all steps stand
before the runtime and the kernels, so that events are not in order of time. One rank enters each
collective late, and the others wait for it in the last one of a step.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LATE_RANK = 1
LATE_US = 4000.0
KERNELS_PER_STEP = 900
COLLECTIVES_PER_STEP = 9

_PID, _BACKWARD_THREAD, _STREAM, _NCCL_STREAM = 2910249, 2919752, 7, 40
_MAIN, _BACKWARD_AT = (_PID, _PID), (_PID, _BACKWARD_THREAD)
_COMPUTE_AT, _NCCL_AT = (0, _STREAM), (0, _NCCL_STREAM)
_STEP_US, _LAG_US = 110_000.0, 500.0
_TRANSFER_US = 300.0
_KERNEL_US, _SPACING_US = 109.0, 110.0
_FORWARD, _BACKWARD = 300, 870
_FIRST_US = 4_458_676_416_788.066

_OPERATIONS = (
    "autograd::engine::evaluate_function: ConvolutionBackward0",
    "ConvolutionBackward0",
    "aten::convolution_backward",
    "aten::cudnn_convolution_backward",
    "aten::empty_strided",
)
_FORWARD_OPERATIONS = ("aten::conv2d", "aten::convolution", "aten::_convolution",
                       "aten::cudnn_convolution", "aten::empty")  # fmt: skip
_RUNTIME = ("cudaStreamGetPriority", "cudaDeviceGetStreamPriorityRange", "cudaLaunchKernel")
_KERNEL_NAME = (
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 32, true, 1>(float, float, float, "
    "float, cudnnTensorStruct, float const*, cudnnTensorStruct, float const*, cudnnTensorStruct, "
    "float*, float const*, float*, float*, float const*, float const*, float)"
)
_NCCL_NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True, slots=True)
class _Times:
    """When things of one step happen on one rank, µs."""

    begin: float
    late: float
    latest: float

    def at(self, kernel: int) -> float:
        """The launch of a kernel: what follows the last collective follows the latest rank."""
        delay = 0.0 if kernel < _FORWARD else self.late
        return self.begin + 1000.0 + kernel * _SPACING_US + (
            self.latest + _TRANSFER_US if kernel >= _BACKWARD else delay
        )  # fmt: skip


def write_job(folder: Path, num_ranks: int, num_bytes: int) -> list[Path]:
    """Write the traces of a job, each of at least so many bytes; returns their paths by rank.

    All ranks have the same steps, so that the last one's size is that of the first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    num_steps = max(num_bytes // _bytes_of_a_step(num_ranks) + 1, 3)
    paths = []
    for rank in range(num_ranks):
        path = folder / f"trace_rank{rank}.json"
        with path.open("w", encoding="ascii") as target:
            write_rank(target, rank, num_ranks, num_steps)
        paths.append(path)
    return paths


def write_rank(target: IO[str], rank: int, num_ranks: int, num_steps: int) -> None:
    """Write the trace of one rank."""
    ranks = ", ".join(map(str, range(num_ranks)))
    target.write(
        '{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {\n      "id": 0, "name": '
        '"NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85899345920,\n      "numSms": 108\n    }\n'
        "  ],\n"
        f'  "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {num_ranks}, '
        '"pg_count": 1, "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": '
        f'"cuda:nccl", "pg_size": {num_ranks}, "ranks": [{ranks}]}}], "nccl_version": "2.22.3"}},\n'
        '  "traceEvents": [\n'
    )
    for number in range(num_steps):
        target.write("".join(_host(_times(number, rank, num_ranks), number, ranks, num_ranks)))
    for number in range(num_steps):
        target.write("".join(_device(_times(number, rank, num_ranks), number, ranks, num_ranks)))
    target.write(
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", '
        f'"ts": {_FIRST_US + num_steps * 2 * _STEP_US:.3f}\n  }}\n  ],\n  "host_name": "node0",\n'
        '  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1711964646000000000\n}\n'
    )


def _times(number: int, rank: int, num_ranks: int) -> _Times:
    latest = LATE_US if num_ranks > LATE_RANK else 0.0
    begin = _FIRST_US + number * (_STEP_US + latest + _TRANSFER_US)
    return _Times(begin, latest if rank == LATE_RANK else 0.0, latest)


def _bytes_of_a_step(num_ranks: int) -> int:
    times = _times(0, 0, num_ranks)
    ranks = ", ".join(map(str, range(num_ranks)))
    parts = (*_host(times, 0, ranks, num_ranks), *_device(times, 0, ranks, num_ranks))
    return sum(map(len, parts))


def _host(times: _Times, number: int, ranks: str, num_ranks: int) -> Iterator[str]:
    """The annotations and operations of the host in one step."""
    length = times.latest + _TRANSFER_US + _STEP_US
    key = number * 10 * KERNELS_PER_STEP + 1
    phases = (
        (f"ProfilerStep#{number}", times.begin, length),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", times.begin, 900.0),
        ("DistributedDataParallel.forward", times.at(0) - 50, _FORWARD * _SPACING_US),
        ("Optimizer.step#SGD.step", times.at(_BACKWARD) - 20,
         (KERNELS_PER_STEP - _BACKWARD) * _SPACING_US),
    )  # fmt: skip
    for name, begin, dur in phases:
        yield _event("user_annotation", name, begin, dur, f'"External id": {key}')
    for kernel in range(KERNELS_PER_STEP):
        at = times.at(kernel)
        in_backward = _FORWARD <= kernel < _BACKWARD
        names = _OPERATIONS if in_backward else _FORWARD_OPERATIONS
        where = _BACKWARD_AT if in_backward else _MAIN
        for depth, name in enumerate(names):
            one = key + 5 * kernel + depth
            said = (
                f'"External id": {one},"Record function id": {one}, "Sequence number": {kernel}, '
                f'"Fwd thread id": 1, "Ev Idx": {one}'
            )
            yield _event("cpu_op", name, at - 40 + 2 * depth, 60 - 4 * depth, said, where)
    for place in range(COLLECTIVES_PER_STEP):
        at, one = times.at(_kernel_before(place)) + 30, _id_of_collective(number, place)
        said = f'"External id": {one}, {_communicated(number, place, ranks, num_ranks)}'
        yield _event("cpu_op", "record_param_comms", at, 40, said, _BACKWARD_AT)
        said = f'"External id": {one}, "Ev Idx": {one}'
        yield _event("user_annotation", "nccl:all_reduce", at + 2, 30, said, _BACKWARD_AT)


def _device(times: _Times, number: int, ranks: str, num_ranks: int) -> Iterator[str]:
    """The runtime, the flow events and the kernels of one step."""
    for kernel in range(KERNELS_PER_STEP):
        at = times.at(kernel)
        one = (number * KERNELS_PER_STEP + kernel) * 3
        for depth, name in enumerate(_RUNTIME):
            said = f'"External id": {one},      "cbid": 203, "correlation": {one + depth}'
            yield _event("cuda_runtime", name, at - 6 + 2 * depth, 1.5, said)
            yield _flow("f", one + depth, _PID, at - 6 + 2 * depth)
        yield _flow("s", one + 2, _PID, at - 2)
        said = _kernel_args(one + 2, _STREAM)
        yield _event("kernel", _KERNEL_NAME, at + _LAG_US, _KERNEL_US, said, _COMPUTE_AT)
        yield _flow("f", one + 2, 0, at + _LAG_US, thread=_STREAM)
    for place in range(COLLECTIVES_PER_STEP):
        at, one = times.at(_kernel_before(place)) + 40, _id_of_collective(number, place)
        begin = at + _LAG_US
        # All ranks leave a collective together: it ends after the latest has entered it.
        dur = times.latest - times.late + _TRANSFER_US
        communicated = _communicated(number, place, ranks, num_ranks)
        said = f'"External id": {one}, "cbid": 211, "correlation": {one}'
        yield _event("cuda_runtime", "cudaLaunchKernelExC", at, 5, said, _BACKWARD_AT)
        said = f'"External id": {one}, {_kernel_args(one, _NCCL_STREAM)}, {communicated}'
        yield _event("kernel", _NCCL_NAME, begin, dur, said, _NCCL_AT)
        said = f'"External id": {one}'
        yield _event("gpu_user_annotation", "nccl:all_reduce", begin, dur, said, _NCCL_AT)


def _kernel_before(place: int) -> int:
    return _FORWARD + (place + 1) * (_BACKWARD - _FORWARD) // COLLECTIVES_PER_STEP - 1


def _id_of_collective(number: int, place: int) -> int:
    return 1_000_000_000 + number * COLLECTIVES_PER_STEP + place


def _communicated(number: int, place: int, ranks: str, num_ranks: int) -> str:
    return (
        '"Collective name": "allreduce", "In msg nelems": 6637568, "Out msg nelems": 6637568, '
        f'"Group size": {num_ranks}, "dtype": "Float", "In split size": "[]", "Out split size": '
        '"[]", "Process Group Name": "0", "Process Group Description": "default_pg", '
        f'"Process Group Ranks": "[{ranks}]", "Seq": {number * COLLECTIVES_PER_STEP + place + 1}'
    )


def _kernel_args(correlation: int, stream: int) -> str:
    return (
        f'"queued": 0, "device": 0, "context": 1,      "stream": {stream}, "correlation": '
        f'{correlation},      "registers per thread": 96,      "shared memory": 87568,      '
        '"blocks per SM": 0.074074,      "warps per SM": 1.259259,      "grid": [8, 1, 1],      '
        '"block": [544, 1, 1],      "est. achieved occupancy %": 0'
    )


def _event(
    cat: str, name: str, ts: float, dur: float, args: str, at: tuple[int, int] = _MAIN
) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {at[0]}, "tid": {at[1]},\n'
        f'    "ts": {ts:.3f}, "dur": {dur:.3f},\n    "args": {{\n      {args}\n    }}\n  }},\n'
    )


def _flow(kind: str, number: int, process: int, ts: float, *, thread: int = _PID) -> str:
    return (
        f'  {{\n    "ph": "{kind}", "id": {number}, "pid": {process}, "tid": {thread}, "ts": '
        f'{ts:.3f},\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }},\n'
    )
