"""A training script that is drawn from a seed, with its bug: Horovod, DDP or FSDP2.

``hvdprof run --np 3 -- python benchmarks/scripts/drawn.py --seed 7``. All that differs between
seeds is in ``benchmarks/blind_draw.py``; computation is a sleep, so that 4 ranks fit on two cores.
"""

import argparse
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, get_worker_info

from benchmarks.blind_draw import BY_HAND, DDP, EPOCHS, FSDP, Drawn, draw
from benchmarks.scripts.fault import LOG_FOLDER, Fault
from benchmarks.scripts.priority import PRIORITY, take_priority
from benchmarks.scripts.profiled_training import BATCH, Net, Samples, Work, reduced


class Pace(Work):
    """Sleeps as long as each part of a step takes, and as long as the bug of the rank does."""

    def __init__(self, drawn: Drawn, rank: int) -> None:
        super().__init__(Fault(), rank)
        self.drawn, self.is_training = drawn, True
        self.noise = random.Random(f"{drawn.seed} {rank}")
        self.waits = any(one.phase == "worker" and one.rank == rank for one in drawn.losses)

    def do(self, part: str) -> None:
        """Take the time of a part of the step, in a worker process that of a batch."""
        worker = get_worker_info()
        if worker is not None:
            # The generator of the module has another seed in each worker process.
            usual_ms = self.drawn.worker_ms(self.rank, worker.id) * random.gauss(
                1, self.drawn.noise
            )
            time.sleep(usual_ms / 1e3)
            return
        share = 1.0 if part in ("optimizer", "outside") else 1 / self.drawn.accumulate
        usual_ms = share * self.drawn.parts_ms[part] * self.noise.gauss(1, self.drawn.noise)
        time.sleep(usual_ms / 1e3)
        lost_ms = share * self.drawn.lost_ms(part, self.rank, self.step)
        if lost_ms and self.is_training:
            begin_s = time.perf_counter()
            time.sleep(lost_ms / 1e3)
            self.log(begin_s)

    def log(self, begin_s: float) -> None:
        """Note that the rank lost the time since then in this step."""
        folder = os.environ.get(LOG_FOLDER)
        if folder:
            log = Path(folder) / f"np{self.drawn.np}-rank{self.rank}.csv"
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{self.step},{time.perf_counter() - begin_s:.6f}\n")


class Update(torch.optim.SGD):
    """SGD that takes its time. Horovod makes a class of it, which has what this class has."""

    pace: Pace

    def step(self, closure=None):  # type: ignore[no-untyped-def]
        """Update the parameters."""
        self.pace.do("optimizer")
        return super().step(closure)


def train(
    pace: Pace, model: torch.nn.Module, average: Callable[[], None], optimizer: torch.optim.SGD
) -> None:
    """Train for all steps; ``average`` is called before each update."""
    drawn = pace.drawn
    samples = Samples(BATCH * drawn.accumulate * drawn.epoch, pace)
    loader = DataLoader(
        samples, BATCH, num_workers=drawn.workers, persistent_workers=drawn.workers > 0
    )
    while pace.step < drawn.num_steps:
        end_s = time.perf_counter()
        for number, (inputs, labels) in enumerate(loader, 1):
            if pace.waits:
                pace.log(end_s)
            loss = torch.nn.functional.cross_entropy(model(inputs), labels) / drawn.accumulate
            loss.backward()
            if number % drawn.accumulate == 0:
                average()
                optimizer.step()
                optimizer.zero_grad()
                pace.do("outside")
                pace.step += 1
            end_s = time.perf_counter()
        if drawn.style == EPOCHS:
            evaluate(pace, model)


def evaluate(pace: Pace, model: torch.nn.Module) -> None:
    """The accuracy on three batches, averaged over the ranks."""
    import horovod.torch as hvd

    model.eval()
    pace.is_training = False
    with torch.no_grad():
        right = [(model(torch.randn(8, 64)).argmax(1) == 0).float().mean() for _ in range(3)]
    hvd.allreduce(torch.stack(right).mean(), name="accuracy")
    pace.is_training = True
    model.train()


def with_horovod(drawn: Drawn) -> None:
    """Train with Horovod."""
    import horovod.torch as hvd

    from benchmarks.scripts.manual_allreduce import average_gradients

    hvd.init()
    Update.pace = pace = Pace(drawn, hvd.rank())
    model = Net(pace)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    update = Update(model.parameters(), lr=0.01)
    if drawn.style == BY_HAND:
        train(pace, model, lambda: average_gradients(model), update)
        return
    optimizer = hvd.DistributedOptimizer(
        update,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=drawn.accumulate,
    )
    train(pace, model, lambda: None, optimizer)


def with_torch(drawn: Drawn) -> None:
    """Train with DDP or FSDP2."""
    dist.init_process_group("gloo")
    Update.pace = pace = Pace(drawn, dist.get_rank())
    model = reduced(Net(pace), drawn.style)
    train(pace, model, lambda: None, Update(model.parameters(), lr=0.01))
    dist.destroy_process_group()


def main() -> None:
    """Train the script of a seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    drawn = draw(parser.parse_args().seed)
    if PRIORITY in os.environ:
        take_priority(os.environ[PRIORITY])
    torch.set_num_threads(1)
    (with_torch if drawn.style in (DDP, FSDP) else with_horovod)(drawn)


if __name__ == "__main__":
    main()
