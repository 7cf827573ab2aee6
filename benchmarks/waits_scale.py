"""How long it takes to find who waited for whom in a large job, and with how much memory.

``python benchmarks/waits_scale.py [--ranks 512] [--steps 1000] [--tensors 161]`` makes ready times
and steps of one launch up, in parts of a few steps each, and computes from them what an analysis
does: bounds of all clocks, the last rank of each gradient, caused wait and stragglers. Rank 1 is
12 ms slower in backward, and clocks are off by up to 1 ms; the results are printed beside the
truth.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.ranks.account import costs_of_ranks, rank_costs
from hvdprof.analyze.ranks.arrivals import (
    ArrivalCube,
    arrival_cubes,
    clocks,
    collective_arrivals,
    corrected,
    corrected_cube,
    ready_of_steps,
    remaining_offsets,
)
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.ranks.stragglers import stragglers
from hvdprof.analyze.ranks.waiting import caused_wait
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.tables.run_tables import ARRIVALS

KEY = ("01-np512-throughput-r1", "main")
MS = 1_000_000
EXCHANGE_ERROR_NS = 1.5 * MS
LATE_RANK = 1
LATE_NS = 12 * MS
STEPS_OF_A_PART = 10

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Launch:
    """A made-up launch: its steps as the clocks of the ranks show them, and the clocks' errors."""

    work: StepWork
    offsets: Times
    names: pd.Index

    def parts(self) -> Iterator[pd.DataFrame]:
        """ARRIVALS of a few steps at a time; gradients get ready evenly within backward."""
        num_tensors, num_ranks = len(self.names), len(self.work.ranks)
        fraction = np.linspace(1.0, 0.01, num_tensors)
        for first in range(0, len(self.work.steps), STEPS_OF_A_PART):
            rows = slice(first, first + STEPS_OF_A_PART)
            arrived, backward = self.work.arrived[rows], self.work.parts["backward"][rows]
            ready = arrived[:, None, :] - backward[:, None, :] * fraction[:, None]
            num_steps = len(arrived)
            tensor = np.tile(np.repeat(np.arange(num_tensors), num_ranks), num_steps)
            zeros = np.zeros(ready.size, int)
            yield ARRIVALS.frame(
                {
                    "pass_id": pd.Categorical.from_codes(zeros, pd.Index([KEY[0]])),
                    "segment": pd.Categorical.from_codes(zeros, pd.Index([KEY[1]])),
                    "rank": np.tile(self.work.ranks, num_steps * num_tensors),
                    "step": np.repeat(self.work.steps[rows], num_tensors * num_ranks),
                    "tensor": pd.Categorical.from_codes(tensor, self.names),
                    "ready_ns": ready.ravel(),
                    "clock_error_ns": int(EXCHANGE_ERROR_NS),
                }
            )


def made_up(num_ranks: int, num_steps: int, num_tensors: int) -> Launch:
    """A launch whose ranks differ by 2 % of their work, but one that is late."""
    rng = np.random.default_rng(0)
    shape = (num_steps, num_ranks)
    forward = MS * 30 * (1 + 0.02 * rng.normal(size=shape))
    backward = MS * 60 * (1 + 0.02 * rng.normal(size=shape))
    backward[:, LATE_RANK] += LATE_NS
    after = MS * 3 * (1 + 0.02 * rng.normal(size=shape))
    begin, arrived = np.zeros(shape), np.zeros(shape)
    end = np.zeros(num_ranks)
    for k in range(num_steps):
        begin[k] = end
        arrived[k] = end + forward[k] + backward[k]
        end = arrived[k].max() + 0.2 * MS + after[k]
    parts = {"data": np.zeros(shape), "forward": forward, "backward": backward}
    true = StepWork(
        ranks=np.arange(num_ranks),
        steps=np.arange(num_steps),
        follows=np.arange(num_steps) > 0,
        begin=begin,
        own_before_sync=forward + backward,
        arrived=arrived,
        transfer=np.full(shape, 0.2 * MS),
        own_after_release=after,
        parts={
            **parts,
            "before_update": np.zeros(shape),
            "optimizer": after,
            "outside": np.zeros(shape),
        },
        clock_error=np.full(shape, EXCHANGE_ERROR_NS),
        behind_release=np.zeros(shape),
        evaluates=np.zeros(shape, dtype=bool),
    )
    offsets = rng.uniform(-MS, MS, size=num_ranks)
    offsets[0] = 0.0
    names = pd.Index([f"allreduce.layer{number}" for number in range(num_tensors)])
    return Launch(corrected(true, offsets), offsets, names)


def main() -> None:
    """Compute all four tables once; print seconds of each and the largest memory of the process."""
    parser = argparse.ArgumentParser(description="Measure the analysis of arrivals and waits.")
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tensors", type=int, default=161)
    options = parser.parse_args()
    launch = made_up(options.ranks, options.steps, options.tensors)
    num_rows = options.ranks * options.steps * options.tensors
    print(f"{num_rows:,} ready times; with the steps alone {_peak_mb():.0f} MB")
    work = launch.work
    watch = _Watch()
    for _ in launch.parts():
        pass
    watch.lap("making them up once, in each of the next two that go through them")

    ready = np.full(work.own_before_sync.shape, np.nan)
    for _, rows, last in ready_of_steps(arrival_cubes(launch.parts()), {KEY: work}):
        ready[rows] = last
    found = clocks(work, ready, KEY)
    watch.lap("clocks")

    offsets, u_ns = remaining_offsets(found), found["u_ns"].to_numpy()
    first_part_cubes: list[ArrivalCube] = []
    num_collectives = num_decided = 0
    for cube in arrival_cubes(launch.parts()):
        decided = collective_arrivals(corrected_cube(cube, offsets, u_ns))["decided"]
        num_collectives += len(decided)
        num_decided += int(decided.sum())
        first_part_cubes = first_part_cubes or [cube]
    watch.lap("collective_arrivals")

    times = rank_times(work)
    costs = costs_of_ranks(rank_costs(times, KEY), times.ranks)
    watch.lap("account of each rank")
    caused_wait(corrected(work, offsets), u_ns, costs, KEY)
    watch.lap("caused wait")
    causes = named_causes(times)
    watch.lap("named causes")
    late = stragglers(times, causes, costs, KEY)
    watch.lap("stragglers")

    named = late[late["pattern"] != "none"]
    off_ns = np.abs(offsets + launch.offsets)
    print(f"peak memory {_peak_mb():.0f} MB")
    print(f"clocks within u: {(off_ns <= u_ns + 1).mean():.1%}, largest u {u_ns.max() / MS:.2f} ms")
    print(f"collectives: {num_collectives:,}, of which {num_decided:,} have a decided last rank")
    (cube,) = first_part_cubes
    print(f"of the first steps' decided ones {_right(launch, cube, offsets, u_ns):.1%} are right")
    print(named[["rank", "pattern", "phase", "lateness_ns", "cost_ns"]].to_string(index=False))


def _right(launch: Launch, cube: ArrivalCube, offsets: Times, u_ns: Times) -> float:
    found = collective_arrivals(corrected_cube(cube, offsets, u_ns))
    true = collective_arrivals(corrected_cube(cube, -launch.offsets, np.zeros_like(u_ns)))
    same = (found["last_rank"] == true["last_rank"])[found["decided"]]
    return float(same.mean()) if len(same) else float("nan")


class _Watch:
    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        print(f"{now - self._since:8.1f} s  {what}", flush=True)
        self._since = now


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    main()
