"""PyTorch's own FSDP2 of one rank of four, on the streams of a GPU, simulated or real.

    python -m tests.builders.fsdp_on_streams CASE...            neither GPU nor network
    python -m tests.builders.fsdp_on_streams --cuda CASE...     kernels that sleep, on a GPU

Collectives take known times on a stream of NCCL's own and move no data. Printed as JSON for each
case: the waits that the recorder marked in the second step, and those that the simulated GPU had.
"""

import functools
import json
import sys
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import FakeWork
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from hvdprof.collect.engines.torch_collectives import CollectiveHooks, CollectiveWaits
from hvdprof.collect.steps.step_marks import StepMarks
from hvdprof.collect.steps.time_source import CudaClock
from tests.builders.simulated_streams import SimulatedGpu

WIDTH, NUM_BLOCKS, NUM_RANKS = 8, 3, 4
COLLECTIVE_NS = {
    "all_gather_single": 700,
    "reduce_scatter_single": 500,
    "all_reduce": 400,
    "all_gather_into_tensor": 700,
    "reduce_scatter_tensor": 500,
}
FORWARD_NS, BACKWARD_NS = 300, 600


class CudaGpu:
    """A real GPU, whose work is to sleep: ``scale`` times as long as the simulated one."""

    scale = 10_000

    def __init__(self) -> None:
        self.Event: Any = torch.cuda.Event
        self.Stream: Any = torch.cuda.Stream
        self.blocked: list[tuple[int, int]] = []
        self.host_ns = 0
        self._cycles_per_ns = 1.0
        self._cycles_per_ns = self._measured()

    def _measured(self) -> float:
        lengths_ms = []
        for _ in range(3):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            torch.cuda._sleep(50_000_000)
            end.record()
            end.synchronize()
            lengths_ms.append(begin.elapsed_time(end))
        return 50.0 / min(lengths_ms)

    def current_stream(self, device: Any = None) -> Any:
        return torch.cuda.current_stream(device)

    def stream(self, one: Any) -> AbstractContextManager[Any]:
        return torch.cuda.stream(one)

    def work(self, length_ns: int) -> None:
        torch.cuda._sleep(int(length_ns * self.scale * self._cycles_per_ns))

    def synchronize(self) -> None:
        torch.cuda.synchronize()


class NcclOnStreams:
    """Collectives that take time on a stream of their own; the current one waits for it."""

    def __init__(self, gpu: SimulatedGpu | CudaGpu) -> None:
        self.gpu = gpu
        self.nccl = gpu.Stream()
        self.done: dict[int, Any] = {}
        for name, length_ns in COLLECTIVE_NS.items():
            if not hasattr(distributed_c10d, name):
                # torch 2.13 and later have the two that end in `single`.
                continue
            replaced = self._timed(getattr(distributed_c10d, name), length_ns)
            setattr(distributed_c10d, name, replaced)
            setattr(dist, name, replaced)
        works: Any = distributed_c10d.Work
        works.wait = lambda work, timeout=None: self._wait(work)
        # NCCL's have the wait of their base class.
        del FakeWork.wait

    def _timed(self, call: Any, length_ns: int) -> Any:
        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            work = call(*args, **kwargs)
            self.nccl.wait_stream(self.gpu.current_stream())
            with self.gpu.stream(self.nccl):
                self.gpu.work(length_ns)
            done = self.nccl.record_event()
            if work is None:
                self.gpu.current_stream().wait_event(done)
            else:
                self.done[id(work)] = done
            return work

        return timed

    def _wait(self, work: Any) -> None:
        # Those of calls that are not asynchronous wait within the call itself.
        if id(work) in self.done:
            self.gpu.current_stream().wait_event(self.done.pop(id(work)))


class Block(nn.Linear):
    """A layer that takes known times on the GPU."""

    gpu: SimulatedGpu | CudaGpu

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.gpu.work(FORWARD_NS)
        outputs = super().forward(inputs)
        outputs.register_hook(lambda _: self.gpu.work(BACKWARD_NS))
        return outputs


class OtherGather:
    """An all-gather of the user's own, which calls nothing of torch.distributed."""

    def __init__(self, gpu: SimulatedGpu | CudaGpu) -> None:
        self.gpu = gpu

    def allocate(self, size: Any, *, dtype: Any, device: Any) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: Any, group: Any, async_op: bool = False
    ) -> None:
        self.gpu.work(COLLECTIVE_NS["all_gather_single"])


def model_of(case: str, gpu: SimulatedGpu | CudaGpu) -> Any:
    """A sharded model as a script of that kind makes it."""
    shape = (2, NUM_RANKS // 2) if case == "hybrid" else (NUM_RANKS,)
    names = ("replicate", "shard")[-len(shape) :]
    device = "cpu" if isinstance(gpu, SimulatedGpu) else "cuda"
    mesh = init_device_mesh(device, shape, mesh_dim_names=names)
    model: Any = nn.Sequential(*(Block(WIDTH, WIDTH) for _ in range(NUM_BLOCKS))).to(device)
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if case == "explicit":
        model._set_unshard_async_op(True)
        model[0].set_modules_to_forward_prefetch([model[1]])
        model[1].set_modules_to_forward_prefetch([model[2]])
    if case == "own gather":
        for block in model:
            block.set_custom_all_gather(OtherGather(gpu))
    return model


def recorded(case: str, gpu: SimulatedGpu | CudaGpu, hooks: CollectiveHooks) -> dict[str, Any]:
    """The second of two steps: its marked waits and those of the GPU."""
    model = model_of(case, gpu)
    inputs = torch.randn(4, WIDTH, device=next(model.parameters()).device)
    clock = CudaClock(
        lambda: gpu.Event(enable_timing=True),
        lambda: gpu.host_ns,
        lambda event: event.record(gpu.current_stream()),
    )
    marks = StepMarks(clock)
    waits = CollectiveWaits(marks, clock, torch)
    hooks.record(waits)
    found: dict[str, Any] = {}
    for _ in range(2):
        gpu.blocked.clear()
        begin = clock.begin_step()
        marks.open(begin)
        model(inputs).sum().backward()
        if case == "script":
            dist.all_reduce(inputs)
        end = clock.now()
        marks.close(end)
        gpu.synchronize()
        begin_ns = clock.begin_ns(begin)
        found = {
            "failure": repr(marks.failure),
            "waits": [
                {
                    "kind": wait.kind,
                    "num_ranks": wait.num_ranks,
                    "submitted": None
                    if wait.submitted is None
                    else begin_ns + clock.offset_ns(wait.submitted),
                    "begin": begin_ns + clock.offset_ns(from_),
                    "end": begin_ns + clock.offset_ns(to),
                }
                for wait, (from_, to) in zip(marks.waits, marks.blocked, strict=True)
            ],
            "blocked": list(gpu.blocked),
            "step": (begin_ns, begin_ns + clock.offset_ns(end)),
        }
    hooks.forget(waits)
    return found


def main(*arguments: str) -> None:
    cases = [one for one in arguments if one != "--cuda"]
    gpu: SimulatedGpu | CudaGpu
    if "--cuda" in arguments:
        gpu = CudaGpu()
    else:
        gpu = SimulatedGpu()
        for name in ("Event", "Stream", "current_stream", "stream"):
            setattr(torch.cpu, name, getattr(gpu, name))
        # The recorder asks these for the streams of the GPU.
        for name in ("Stream", "current_stream"):
            setattr(torch.cuda, name, getattr(gpu, name))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=NUM_RANKS)
    NcclOnStreams(gpu)
    Block.gpu = gpu
    hooks = CollectiveHooks()
    print(json.dumps({case: recorded(case, gpu, hooks) for case in cases}))


if __name__ == "__main__":
    main(*sys.argv[1:])
