"""An FSDP2 script as users write them, on CPU with Gloo; options make one rank late.

Work is sleep, so that ranks do not compete for cores.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 64


class SleepInBackward(torch.autograd.Function):
    """Passes its input on, and sleeps in backward."""

    @staticmethod
    def forward(ctx, tensor, seconds):
        ctx.seconds = seconds
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient, None


class Block(nn.Module):
    """A layer that takes known times."""

    def __init__(self, options, rank):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        late = options.late_ms / 1e3 if rank == options.late_rank else 0.0
        share = 1.0 / options.layers
        share_of_work = options.times * share
        self.forward_s = 0.006 * share_of_work + late * share * (options.late_phase == "forward")
        self.backward_s = 0.012 * share_of_work + late * share * (options.late_phase == "backward")

    def forward(self, inputs):
        time.sleep(self.forward_s)
        outputs = SleepInBackward.apply(self.linear(inputs), self.backward_s)
        return torch.relu(outputs)


class LateDataset(TensorDataset):
    """Takes a known time per batch."""

    work_s, late_s = 0.002, 0.0

    def __getitems__(self, places):
        time.sleep(self.work_s + self.late_s)
        return [self[place] for place in places]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--times", type=float, default=1.0, help="length of the work of a step")
    parser.add_argument("--late-rank", type=int, default=-1)
    parser.add_argument("--late-phase", default="backward")
    parser.add_argument("--late-ms", type=float, default=0.0)
    parser.add_argument("--log-every", type=int, default=10)
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.Sequential(
        *(Block(options, rank) for _ in range(options.layers)), nn.Linear(WIDTH, 1)
    )
    for block in model:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = LateDataset(torch.randn(options.steps * 8, WIDTH), torch.randn(options.steps * 8, 1))
    data.work_s *= options.times
    if rank == options.late_rank and options.late_phase == "data":
        data.late_s = options.late_ms / 1e3
    loss_of = nn.MSELoss()
    for number, (inputs, targets) in enumerate(DataLoader(data, batch_size=8)):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if number % options.log_every == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {number}: loss {mean.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
