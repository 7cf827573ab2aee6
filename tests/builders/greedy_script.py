"""A Horovod script whose rank 1 takes ever more memory, from its 40th step on."""

import horovod.torch as hvd
import torch

STEPS, GREEDY_FROM, BYTES = 2000, 40, 50_000_000


def main() -> None:
    hvd.init()
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 4)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )
    taken = []
    for step in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(8, 32)).sum().backward()
        optimizer.step()
        if step >= GREEDY_FROM and hvd.rank() == 1:
            taken.append(bytearray(b"x") * BYTES)


if __name__ == "__main__":
    main()
