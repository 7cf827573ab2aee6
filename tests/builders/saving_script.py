"""A script that writes checkpoints with torch.distributed.checkpoint, the fourth slowly.

Arguments: ``ddp`` or ``fsdp2``, ``save`` or ``async_save``, and where to."""

import sys
import time
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from tests.builders.no_compiler import leave_out_compiler

EVERY, SLOW_S = 8, 6.0


class Slow:
    """Takes a time to be written."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __reduce__(self) -> tuple[type, tuple[float]]:
        time.sleep(self.seconds)
        return Slow, (0.0,)


def main(kind: str, name: str, place: str) -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    layer = nn.Linear(64, 64)
    wrapped: Any = nn.parallel.DistributedDataParallel
    model = wrapped(layer) if kind == "ddp" else fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(5 * EVERY):
        optimizer.zero_grad()
        time.sleep(0.02)
        model(torch.ones(4, 64)).sum().backward()
        optimizer.step()
        if step % EVERY == EVERY - 1:
            # As many import it where they need it.
            import torch.distributed.checkpoint as dcp

            # Until it is seen to be loaded.
            time.sleep(4.0 if step == EVERY - 1 else 0.0)
            is_fourth = step == 4 * EVERY - 1
            state = {"model": model.state_dict(), "slow": Slow(SLOW_S if is_fourth else 0.05)}
            written = getattr(dcp, name)(state, checkpoint_id=f"{place}/step-{step}")
            if name == "async_save":
                written.result()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if "ddp" in sys.argv:
        leave_out_compiler()
    main(*sys.argv[1:])
