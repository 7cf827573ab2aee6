"""How often u covers the error of clocks, and whether attribution survives skewed clocks.

``python -m benchmarks.clock_coverage [--launches 300] [--write PAGE]`` simulates launches whose
clocks have an offset and a drift within the bound of the clock exchange. The analysis corrects
them, and the command compares with the truth: corrections within u, the size of u, whether the last
rank of a step is the true one where it counts as decided, and whether the same stragglers are found
as with true clocks. ``--write docs/explain/accuracy.md`` puts the table into the page.
"""

import argparse
import itertools
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.page_section import write_section
from hvdprof.analyze.ranks.account import costs_of_ranks, rank_costs
from hvdprof.analyze.ranks.arrivals import clocks, corrected, remaining_offsets
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.ranks.stragglers import stragglers
from hvdprof.analyze.ranks.waiting import UNDECIDED, step_waits
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.tables.waiting_tables import STRAGGLER_PATTERNS
from tests.builders.step_works import MS, simulated, skewed

KEY = ("p", "s")
NUM_STEPS = 60
DRIFT_PPM = 20.0
RANKS = (2, 8, 32)
LATE_MS = 20.0


@dataclass(frozen=True, slots=True)
class Setting:
    """Launches that differ by chance alone; times in ms."""

    num_ranks: int
    exchange: float
    collectives: float
    late: float


@dataclass(frozen=True, slots=True)
class Score:
    """Of one launch; ``u_ms`` of ranks other than 0, counts of steps and whether names agree."""

    within: NDArray[np.bool_]
    u_ms: NDArray[np.float64]
    num_decided: int
    num_last_right: int
    is_same: bool


def settings() -> Iterator[Setting]:
    """The grid."""
    kinds = ((1.0, 0.4, 0.0), (6.0, 0.4, 0.0), (6.0, 0.4, LATE_MS), (6.0, 5.0, LATE_MS))
    for num_ranks, kind in itertools.product(RANKS, kinds):
        yield Setting(num_ranks, *kind)


def score(setting: Setting, seed: int) -> Score:
    """Simulate one launch and compare what the analysis says with the truth."""
    rng = np.random.default_rng([seed, setting.num_ranks])
    others = setting.num_ranks - 1
    extra = np.zeros((NUM_STEPS, setting.num_ranks))
    extra[:, rng.integers(setting.num_ranks)] = setting.late
    true = simulated(
        NUM_STEPS,
        setting.num_ranks,
        extra_ms={"backward": extra},
        tail_ms=setting.collectives,
        seed=seed,
    )
    bound = setting.exchange * MS
    drifts = np.concatenate([[0.0], rng.uniform(-DRIFT_PPM, DRIFT_PPM, size=others)])
    # What drifts away during the launch has to stay within the bound of the exchange too.
    room = bound - DRIFT_PPM * 1e-6 * float(true.end.max())
    offsets = np.concatenate([[0.0], rng.uniform(-room, room, size=others)])
    recorded, ready = skewed(true, offsets, drifts, [0.0, *[bound] * others])
    found = clocks(recorded, ready, KEY)
    u_ns = found["u_ns"].to_numpy()
    work = corrected(recorded, remaining_offsets(found))
    needed = -(offsets + true.arrived.mean(axis=0) * drifts * 1e-6)
    last = step_waits(work.arrived, u_ns).last
    decided = last != UNDECIDED
    return Score(
        within=(np.abs(needed - remaining_offsets(found)) <= u_ns + 1)[1:],
        u_ms=u_ns[1:] / MS,
        num_decided=int(decided.sum()),
        num_last_right=int((last == true.arrived.argmax(axis=1))[decided].sum()),
        is_same=_named(work) == _named(true),
    )


def scores_of(task: tuple[Setting, int]) -> list[Score]:
    """The scores of so many launches of a setting."""
    setting, num = task
    return [score(setting, seed) for seed in range(num)]


def markdown(scores: dict[Setting, list[Score]]) -> str:
    """The table as Markdown."""
    lines = [
        "| ranks | exchange good to | collectives of | one rank late by | launches | clocks within "
        "u | u: median, largest | steps with a decided last rank | of these right | same ranks "
        "called late |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one, found in scores.items():
        within = np.concatenate([score.within for score in found])
        u_ms = np.concatenate([score.u_ms for score in found])
        decided = sum(score.num_decided for score in found)
        right = sum(score.num_last_right for score in found)
        same = sum(score.is_same for score in found)
        lines.append(
            f"| {one.num_ranks} | {one.exchange:g} ms | {one.collectives:g} ms "
            f"| {f'{one.late:g} ms' if one.late else 'none'} | {len(found)} | {within.mean():.2%} "
            f"| {np.median(u_ms):.2f}, {u_ms.max():.2f} ms "
            f"| {decided / (len(found) * NUM_STEPS):.1%} "
            f"| {f'{right / decided:.2%}' if decided else 'none'} | {same / len(found):.1%} |"
        )
    return "\n".join(lines)


def _named(work: StepWork) -> list[tuple[int, str]]:
    times = rank_times(work)
    costs = costs_of_ranks(rank_costs(times, KEY), times.ranks)
    table = stragglers(times, named_causes(times), costs, KEY)
    late = table[table["pattern"].isin(STRAGGLER_PATTERNS)]
    return list(zip(late["rank"], late["phase"], strict=True))


def main() -> None:
    """Simulate the grid on all cores, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=300, help="of each setting")
    parser.add_argument("--write", type=Path, help="page to write the table into")
    options = parser.parse_args()
    grid = list(settings())
    with ProcessPoolExecutor() as pool:
        found = pool.map(scores_of, [(one, options.launches) for one in grid])
        scores = dict(zip(grid, found, strict=True))
    text = markdown(scores)
    print(text)
    if options.write is not None:
        write_section(options.write, "clocks", text)


if __name__ == "__main__":
    main()
