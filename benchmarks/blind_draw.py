"""Draws training scripts and their bugs from seeds, for ``blind_scripts.py``.

Every rank draws its script again, so this needs the standard library alone.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

CLASSIC, ACCUMULATION, BY_HAND, EPOCHS, DDP, FSDP = STYLES = (
    "DistributedOptimizer",
    "accumulation",
    "allreduce by hand",
    "epochs with evaluation",
    "ddp",
    "fsdp",
)
NONE, INPUT, PAUSES, ROTATING = "no bug", "all input-bound", "all pause", "any rank at random"
STEADY, TAILED, BURSTS, PERIODIC = "steady", "heavy-tailed", "bursts", "periodic"
FROM, WHILE, RAMP, RANK_0 = "from a step on", "for a while", "grows", "rank 0 alone"
QUEUE, TWO = "slow worker behind a queue", "two at once"
KINDS = (
    *(NONE, STEADY, TAILED, BURSTS, PERIODIC, FROM, WHILE, RAMP),
    *(INPUT, PAUSES, ROTATING, RANK_0, QUEUE, TWO),
)
PHASES = ("data", "forward", "backward", "optimizer", "outside")
WARMUP_STEPS = 5
COMMUNICATION_MS = {DDP: 10, FSDP: 40}
"""What gradients and parameters take on a machine with two cores; elsewhere 5 ms."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a rank loses in a phase, in ms by step. Of ``worker``: what a batch takes there."""

    rank: int
    phase: str
    ms: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A script with its bug. ``slow_worker`` is the one slow worker of a rank; None: all are.

    ``parts_ms`` are the usual times of a step by phase, ``epoch`` the steps between two
    evaluations, ``noise`` the standard deviation of each time as a share of it.
    """

    seed: int
    kind: str
    style: str
    np: int
    workers: int
    num_steps: int
    accumulate: int
    epoch: int
    noise: float
    parts_ms: Mapping[str, float]
    slow_worker: int | None
    losses: tuple[Loss, ...]

    @property
    def name(self) -> str:
        """A name that no other script has."""
        return f"{self.seed}-{self.kind}-{self.style}-np{self.np}".replace(" ", "_")

    @property
    def is_beside(self) -> bool:
        """Whether another process takes a core now and then."""
        return self.seed % 2 == 1

    @property
    def bugs(self) -> dict[str, tuple[int, ...]]:
        """Ranks with a bug, by phase; a slow worker's phase is data."""
        found: dict[str, tuple[int, ...]] = {}
        for loss in self.losses:
            phase = "data" if loss.phase == "worker" else loss.phase
            found[phase] = (*found.get(phase, ()), loss.rank)
        return found

    def lost_ms(self, phase: str, rank: int, step: int) -> float:
        """What the rank loses in a phase of a step; behind the last step nothing."""
        own = [one for one in self.losses if (one.phase, one.rank) == (phase, rank)]
        return sum(one.ms[step] for one in own if step < len(one.ms))

    def worker_ms(self, rank: int, worker: int) -> float:
        """What a batch takes in a worker process of the rank."""
        slow_ms = self.lost_ms("worker", rank, 0) if self.slow_worker in (None, worker) else 0
        return slow_ms or self.parts_ms["data"] / self.accumulate


def draw(seed: int) -> Drawn:
    """The script of a seed. 14 seeds from a multiple of 14 on have one bug of each kind."""
    deck = list(KINDS)
    random.Random(seed // len(KINDS)).shuffle(deck)
    kind, rng = deck[seed % len(KINDS)], random.Random(f"blind {seed}")
    style = rng.choice([one for one in STYLES if (kind, one) != (QUEUE, EPOCHS)])
    np, num_steps = rng.randint(2, 4), WARMUP_STEPS + rng.randint(30, 80)
    epoch = rng.randint(10, 20) if style == EPOCHS else num_steps
    num_steps += -num_steps % epoch
    parts = {
        "data": rng.uniform(0.02, 0.15),
        "forward": rng.uniform(0.2, 0.4),
        "backward": rng.uniform(0.3, 0.5),
        "optimizer": rng.uniform(0.02, 0.15),
        "outside": rng.uniform(0, 0.03),
    }
    scale = rng.uniform(40, 120) / sum(parts.values())
    parts_ms = {name: part * scale for name, part in parts.items()}
    accumulate = rng.choice((2, 4)) if style == ACCUMULATION else 1
    phases = _phases(kind, rng)
    workers = rng.choice((1, 2, 4) if kind == QUEUE else (0, 1, 2, 4))
    if "data" in phases and not (kind == INPUT and workers):
        workers = 0
    step_ms = sum(parts_ms.values()) + COMMUNICATION_MS.get(style, 5)
    if kind == QUEUE or (kind == INPUT and workers):
        # So many workers yield one batch in the time of a step and what is lost in it.
        share = rng.uniform(0.3, 0.6)
        batch_ms = workers * step_ms * (1 + share) / accumulate
        ranks = rng.sample(range(np), rng.randint(1, max(np - 2, 1)))[:2]
        ranks = list(range(np)) if kind == INPUT else sorted(ranks)
        losses = [Loss(rank, "worker", (batch_ms,) * num_steps) for rank in ranks]
    else:
        losses = _losses(kind, phases, np, num_steps, step_ms, rng)
    return Drawn(
        seed=seed,
        kind=kind,
        style=style,
        np=np,
        workers=workers,
        num_steps=num_steps,
        accumulate=accumulate,
        epoch=epoch,
        noise=rng.uniform(0.01, 0.04),
        parts_ms=parts_ms,
        slow_worker=0 if kind == QUEUE and rng.random() < 0.5 else None,
        losses=tuple(losses),
    )


def _phases(kind: str, rng: random.Random) -> list[str]:
    if kind in (RANK_0, PAUSES):
        return ["outside"]
    if kind == INPUT:
        return ["data"]
    return [] if kind in (NONE, QUEUE) else rng.sample(PHASES, 2 if kind == TWO else 1)


def _losses(
    kind: str, phases: list[str], np: int, num_steps: int, step_ms: float, rng: random.Random
) -> list[Loss]:
    if kind == NONE:
        return []
    mean_ms = step_ms * rng.uniform(0.1, 0.4 if kind == TWO else 0.6)
    ms = _by_step(kind, num_steps, mean_ms, rng)
    ranks = rng.sample(range(np), 2 if kind == TWO else 1)
    if kind == TWO:
        second_ms = _by_step(PERIODIC, num_steps, step_ms * rng.uniform(0.1, 0.4), rng)
        return [Loss(ranks[0], phases[0], ms), Loss(ranks[1], phases[1], second_ms)]
    if kind == ROTATING:
        hit = [rng.randrange(np) for _ in ms]
        return [
            Loss(rank, phases[0], tuple(ms[step] * (hit[step] == rank) for step in range(len(ms))))
            for rank in range(np)
        ]
    if kind in (INPUT, PAUSES):
        ranks = list(range(np))
    return [Loss(0 if kind == RANK_0 else rank, phases[0], ms) for rank in ranks]


def _by_step(kind: str, num: int, mean_ms: float, rng: random.Random) -> tuple[float, ...]:
    """What each step loses, in the mean of the steps behind the warm-up so much."""
    first, last = int(num * rng.uniform(0.3, 0.5)), int(num * rng.uniform(0.6, 0.85))
    every = rng.randint(6, 12) if kind in (RANK_0, PAUSES) else rng.randint(3, 9)
    chance, sigma = rng.uniform(0.15, 0.4), rng.uniform(0.8, 1.5)
    if kind in (PERIODIC, RANK_0, PAUSES):
        shape = [float((step + 1) % every == 0) for step in range(num)]
    elif kind == TAILED:
        shape = [rng.lognormvariate(0, sigma) for _ in range(num)]
    elif kind == BURSTS:
        shape = []
        while len(shape) < num:
            shape += [0.0] * rng.randint(6, 15) + [1.0] * rng.randint(2, 6)
    elif kind == FROM:
        shape = [float(step >= first) for step in range(num)]
    elif kind == WHILE:
        shape = [float(first <= step < last) for step in range(num)]
    elif kind == RAMP:
        shape = [float(step) for step in range(num)]
    elif kind == ROTATING:
        shape = [float(rng.random() < chance) for _ in range(num)]
        shape[-1] = 1.0
    else:
        shape = [1.0] * num
    counted = shape[WARMUP_STEPS:num]
    factor = mean_ms * len(counted) / sum(counted)
    return tuple(factor * one for one in shape[:num])
