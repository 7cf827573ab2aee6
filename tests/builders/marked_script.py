"""A Horovod script that says itself what its steps are, and reduces its gradients by hand."""

import sys
from pathlib import Path

import horovod.torch as hvd
import torch

from hvdprof import collect

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.builders.no_compiler import leave_out_compiler

BATCH = 8


def main() -> None:
    leave_out_compiler()
    hvd.init()
    collect.start()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(100):
        with collect.step(samples=BATCH):
            with collect.phase("data"):
                inputs, labels = torch.randn(BATCH, 32), torch.randint(0, 4, (BATCH,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            for name, parameter in model.named_parameters():
                parameter.grad = hvd.allreduce(parameter.grad, name=name)
            optimizer.step()
        collect.mark(f"epoch {epoch}")


if __name__ == "__main__":
    main()
