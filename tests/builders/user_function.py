"""A Horovod function as users write them in notebooks, without a word of hvdprof."""

from typing import Any

SAMPLES = 512
BATCH = 16
PARAMETERS = 32 * 64 + 64 + 64 * 4 + 4


def train(epochs: int, *, fail_at: int = -1, die_at: int = -1) -> dict[str, Any]:
    """Train a small model; the arguments name the steps of the faults of rank 1."""
    import os
    import signal

    import horovod.torch as hvd
    import torch

    from tests.builders.no_compiler import leave_out_compiler

    leave_out_compiler()
    hvd.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = torch.utils.data.TensorDataset(torch.randn(SAMPLES, 32), torch.randint(0, 4, (SAMPLES,)))
    shard = torch.utils.data.distributed.DistributedSampler(data, hvd.size(), hvd.rank())
    loader = torch.utils.data.DataLoader(data, BATCH, sampler=shard)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    num_steps = 0
    for _ in range(epochs):
        for inputs, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            num_steps += 1
            if hvd.rank() == 1 and num_steps == fail_at:
                raise RuntimeError("on purpose")
            if hvd.rank() == 1 and num_steps == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
    if hvd.rank() == 0:
        print(f"{num_steps} steps")
    return {"rank": hvd.rank(), "size": hvd.size(), "steps": num_steps}
