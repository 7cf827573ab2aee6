"""Draws jobs whose input, cores or memory are at fault from seeds, for ``machine_faults.py``.

Each rank draws its job again, so this needs the standard library alone.
"""

import random
from dataclasses import dataclass, replace

ALL = -1
NEIGHBOUR, QUOTA, MEMORY = "busy neighbour on the core", "CPU quota of a cgroup", "memory grows"
DECODE, COLLATE = "slow decode in workers", "slow collate in workers"
WORKERS_0, WORKERS_1, WORKERS_4 = "num_workers=0", "num_workers=1", "num_workers=4"
QUEUE, EPOCHS = "bursts behind prefetch_factor=1", "workers started anew each epoch"
SWAP, SAME_CORE = "memory in swap", "both ranks pinned to one core"
KINDS = (
    *(NEIGHBOUR, QUOTA, MEMORY, DECODE, COLLATE),
    *(WORKERS_0, WORKERS_1, WORKERS_4, QUEUE, EPOCHS, SWAP, SAME_CORE),
)
OF_ONE_RANK = (NEIGHBOUR, QUOTA, MEMORY, DECODE, SWAP)
RUN_MS, MEMORY_RUN_MS = 13_000.0, 20_000.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job of two ranks; times are in ms.

    Attributes:
        rank: The rank that is at fault, ALL for both.
        engine: ``ddp`` or ``horovod``.
        batch: Samples of a batch.
        step_ms: What a step takes but for its input; on a core where the fault is one of cores.
        load_ms: What a batch takes to load where it is at fault, and ``usual_ms`` elsewhere.
        on_core: Whether loading needs a core; else it waits.
        in_collate: Whether that time is spent in ``collate_fn``.
        workers: ``num_workers``.
        prefetch: ``prefetch_factor``.
        burst: Each how manyth batch takes ``load_ms``, the others ``usual_ms``.
        epoch: Batches of an epoch, 0 for one epoch.
        start_ms: What the first sample of a worker takes more.
        persistent: ``persistent_workers``.
        grow_mb: What the rank keeps more in each step, in MB.
        quota: Of one core, what the rank may use; 1 for all.
        neighbours: Busy processes of the usual priority on the core of the rank.
        held_mb: Memory that the rank uses a part of in each step, in MB.
        is_limited: Whether two fifths of that have to be in swap.
        shares_core: Whether both ranks compute on one core.
    """

    seed: int
    kind: str
    is_clean: bool
    rank: int
    engine: str
    batch: int
    step_ms: float
    load_ms: float
    usual_ms: float
    on_core: bool
    in_collate: bool
    workers: int
    prefetch: int
    burst: int
    epoch: int
    start_ms: float
    persistent: bool
    grow_mb: float
    quota: float
    neighbours: int
    held_mb: float
    is_limited: bool
    shares_core: bool
    num_steps: int

    @property
    def name(self) -> str:
        """A name that no other job has."""
        return f"{self.seed}-{'clean' if self.is_clean else 'fault'}"

    @property
    def is_pinned(self) -> bool:
        """Whether each rank is pinned to a core, and computes there."""
        return self.kind in (NEIGHBOUR, QUOTA, SAME_CORE)

    def clean(self) -> "Job":
        """Its twin without the fault, which runs for as long."""
        load_ms = self.load_ms if self.kind == QUEUE else self.usual_ms
        return replace(
            self,
            is_clean=True,
            load_ms=load_ms,
            prefetch=8 if self.kind == QUEUE else self.prefetch,
            persistent=True,
            grow_mb=0.0,
            quota=1.0,
            neighbours=0,
            is_limited=False,
            shares_core=False,
            num_steps=round(1.4 * self.num_steps),
        )


def draw(seed: int) -> Job:
    """The job of a seed; twelve seeds in a row have each kind once."""
    rng = random.Random(f"machine {seed}")
    kind = KINDS[seed % len(KINDS)]
    step_ms = rng.uniform(25, 45)
    # Workers would be in the group of the rank, and its limit.
    workers = {WORKERS_0: 0, SWAP: 0, WORKERS_1: 1, WORKERS_4: 4, DECODE: rng.randint(1, 2)}.get(
        kind, 1
    )
    long = rng.uniform(1.6, 2.2)
    load_ms = {
        WORKERS_0: step_ms * rng.uniform(0.5, 1.0),
        QUEUE: step_ms * rng.uniform(4, 6),
        NEIGHBOUR: 0.1 * step_ms,
        QUOTA: 0.1 * step_ms,
        MEMORY: 0.1 * step_ms,
        SWAP: 0.01 * step_ms,
        SAME_CORE: 0.1 * step_ms,
        EPOCHS: 0.2 * step_ms,
    }.get(kind, workers * step_ms * long)
    usual_ms = min(0.2 * max(workers, 0.1) * step_ms, load_ms)
    longer = {MEMORY: 1.2, EPOCHS: 1.2, QUOTA: 10.0, NEIGHBOUR: 5.0, SWAP: 2.5, SAME_CORE: 2.2}
    whole_ms = step_ms * longer.get(kind, 1.8)
    return Job(
        seed=seed,
        kind=kind,
        is_clean=False,
        rank=rng.randrange(2) if kind in OF_ONE_RANK else ALL,
        engine=rng.choice(("ddp", "horovod")),
        batch=rng.choice((2, 4)),
        step_ms=step_ms,
        load_ms=load_ms,
        usual_ms=usual_ms,
        on_core=kind == DECODE and rng.random() < 0.5,
        in_collate=kind == COLLATE,
        workers=workers,
        prefetch=1 if kind == QUEUE else 2,
        burst=rng.randint(8, 11) if kind == QUEUE else 1,
        epoch=rng.randint(10, 14) if kind == EPOCHS else 0,
        start_ms=rng.uniform(200, 350) if kind == EPOCHS else 0.0,
        persistent=kind != EPOCHS,
        grow_mb=rng.uniform(1, 2) if kind == MEMORY else 0.0,
        quota=rng.uniform(0.06, 0.1) if kind == QUOTA else 1.0,
        neighbours=1 if kind == NEIGHBOUR else 0,
        held_mb=rng.uniform(80, 110) if kind == SWAP else 0.0,
        is_limited=kind == SWAP,
        shares_core=kind == SAME_CORE,
        num_steps=round((MEMORY_RUN_MS if kind == MEMORY else RUN_MS) / whole_ms),
    )
