"""A user's script as in docs/explain/recorder.md, run in every rank; options choose its kind."""

import os
import sys

import horovod.torch as hvd
import torch

from hvdprof import collect
from hvdprof.collect.clock import job_group
from tests.builders.no_compiler import leave_out_compiler

OWN_COMPRESSION = ("clip", "groups")


class CountingCompression:
    """Halves floats, counts its calls, and takes no tensor without elements."""

    def __init__(self) -> None:
        self.num_calls = 0

    def compress(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        assert tensor.numel()
        self.num_calls += 1
        return tensor.half(), tensor.dtype

    def decompress(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return tensor.to(dtype)


def main(kind: str) -> None:
    leave_out_compiler()
    hvd.init()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    compression = CountingCompression()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        groups=2 if kind == "groups" else None,
        backward_passes_per_step=2 if kind == "accumulate" else 1,
        compression=compression if kind in OWN_COMPRESSION else hvd.Compression.fp16,
    )
    if kind == "unequal":
        job_group.GATHER_TIMEOUT_S = 1.0
        if hvd.rank() == 1:
            del os.environ["HVDPROF_RECORDER_DIR"]
    collect.start()
    collect.watch(model, optimizer)
    images = torch.randn(32, 8)
    with collect.timeline(sys.argv[2]):
        for _ in range(4):
            with collect.step(samples=32):
                optimizer.zero_grad()
                for _ in range(2 if kind == "accumulate" else 1):
                    loss = model(images).square().mean()
                    loss.backward()
                if kind == "clip":
                    optimizer.synchronize()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    with optimizer.skip_synchronize():
                        optimizer.step()
                else:
                    optimizer.step()
                collect.loss(loss)
    collect.stop()
    assert compression.num_calls == (4 * 4 if kind in OWN_COMPRESSION else 0)
    sys.stdout.write("trained\n")


if __name__ == "__main__":
    main(sys.argv[1])
