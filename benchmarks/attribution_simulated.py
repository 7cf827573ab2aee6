"""How often the right rank and phase are named, on simulated launches of known truth.

``python -m benchmarks.attribution_simulated [--launches 200] [--write PAGE]`` sends thousands of
simulated launches through the analysis that recorded launches go through. A rank's own work has
noise of 2 % per phase: independent, correlated from step to step (AR(1), 0.8), or with occasional
stalls of any rank. One rank is slower by a known time in a known phase, or none is. The command
prints how often rank and phase were right, the error of the cost, and how often a clean launch
named a rank; ``--write docs/explain/accuracy.md`` puts the tables into the page. Real launches are
measured by ``attribution.py``.
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
from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from tests.builders.analysis import autoregressive
from tests.builders.step_works import PARTS_MS, simulated

NUM_STEPS = 100
STEP_MS = 100.0
PHASES = ("data", "forward", "backward", "optimizer", "outside")
SIZES = (0.02, 0.05, 0.07, 0.1, 0.2, 0.5)
RANKS = (2, 4, 8, 32)
NOISES = ("independent", "correlated", "with stalls")
CLEAN_TIMES = 5
COSTS = (-1.0, 0.03, 0.045, 0.05, 0.055, 0.07, 0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """Launches that differ by chance alone; ``share`` of the step is the lateness, 0 for none."""

    num_ranks: int
    noise: str
    share: float
    every: int


@dataclass(frozen=True, slots=True)
class Score:
    """Of so many launches: rank right, phase right, another rank named; errors of cost and gain.

    ``true_costs`` are what the fault costs a step, as a share of the step with it, and whether the
    rank was named, launch by launch.
    """

    num: int
    rank_right: int
    phase_right: int
    another: int
    cost_errors: tuple[float, ...]
    gain_errors: tuple[float, ...]
    true_costs: tuple[tuple[float, bool], ...]


def settings() -> Iterator[Setting]:
    """The grid; a fault in every fourth step is four times as large."""
    for num_ranks, noise in itertools.product(RANKS, NOISES):
        yield Setting(num_ranks, noise, 0.0, 1)
        for share in SIZES:
            yield Setting(num_ranks, noise, share, 1)
        yield Setting(num_ranks, noise, 0.4, 4)


def score(task: tuple[Setting, int]) -> Score:
    """Simulate and analyse the launches of one setting."""
    setting, num = task
    rank_right = phase_right = another = 0
    costs: list[float] = []
    gains: list[float] = []
    truths: list[tuple[float, bool]] = []
    for seed in range(num):
        rng = np.random.default_rng([seed, setting.num_ranks, round(1e3 * setting.share)])
        phase, rank = PHASES[seed % len(PHASES)], int(rng.integers(setting.num_ranks))
        extra = _noise(setting, rng)
        clean = simulated(NUM_STEPS, setting.num_ranks, extra_ms=extra, seed=seed)
        fault = np.zeros((NUM_STEPS, setting.num_ranks))
        fault[:: setting.every, rank] = setting.share * STEP_MS
        both = {**extra, phase: extra.get(phase, 0.0) + fault}
        work = simulated(NUM_STEPS, setting.num_ranks, extra_ms=both, seed=seed)
        times = rank_times(work)
        causes = named_causes(times)
        credits = launch_causes(times, [[cause] for cause in causes]).named
        # A straggler of all ranks is any of them: it accuses none.
        named = {
            of: (cause, credit)
            for cause, credit in zip(causes, credits, strict=True)
            if len(cause.ranks) < setting.num_ranks
            for of in cause.ranks
        }
        another += bool(set(named) - ({rank} if setting.share else set()))
        if not setting.share:
            continue
        is_named = rank in named
        # What a step takes more than the same launch without the fault.
        truth = float(work.step_times.mean() - clean.step_times.mean())
        truths.append((truth / float(work.step_times.mean()), is_named))
        if is_named:
            rank_right += 1
            cause, credit = named[rank]
            phase_right += cause.phase == phase
            of_truth = float(work.step_times.mean()) / truth
            costs.append(credit.share * of_truth - 1)
            gains.append(credit.saved_if_removed * of_truth - 1)
    return Score(num, rank_right, phase_right, another, tuple(costs), tuple(gains), tuple(truths))


def _noise(setting: Setting, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    shape = (NUM_STEPS, setting.num_ranks)
    if setting.noise == "correlated":
        series = np.stack([autoregressive(rng, NUM_STEPS, 0.8) for _ in range(shape[1])], axis=1)
        return {"backward": 0.02 * PARTS_MS["backward"] * series}
    if setting.noise == "with stalls":
        # Any rank, once in fifty steps, for up to a fifth of a step.
        return {"forward": (rng.random(shape) < 0.02) * rng.uniform(0, 0.2 * STEP_MS, shape)}
    return {}


def markdown(scores: dict[Setting, Score]) -> str:
    """The tables as Markdown, the kinds of noise together."""
    lines = [
        "| ranks | lateness, of a step | launches | right rank | right phase | another rank named "
        "| error of the gain: median, 90 % within | the cost against it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (num_ranks, share, every), found in _together(scores, with_fault=True).items():
        gains = np.abs([error for one in found for error in one.gain_errors])
        gain = f"{np.median(gains):.1%}, {np.quantile(gains, 0.9):.1%}" if len(gains) else ""
        costs = [error for one in found for error in one.cost_errors]
        cost = f"{np.median(costs):+.1%}" if costs else ""
        num = sum(one.num for one in found)
        how = f"{share:.0%}" + (" in every 4th" if every > 1 else "")
        shares = [
            f"{sum(getattr(one, name) for one in found) / num:.1%}"
            for name in ("rank_right", "phase_right", "another")
        ]
        lines.append(f"| {num_ranks} | {how} | {num} | {' | '.join(shares)} | {gain} | {cost} |")
    lines += ["", *_by_cost([one for found in scores.values() for one in found.true_costs])]
    lines += ["", "| ranks | clean launches | of them naming a rank |", "|---|---|---|"]
    for (num_ranks, _, _), found in _together(scores, with_fault=False).items():
        num, alarms = sum(one.num for one in found), sum(one.another for one in found)
        lines.append(f"| {num_ranks} | {num} | {alarms} ({alarms / num:.2%}) |")
    return "\n".join(lines)


def _by_cost(truths: list[tuple[float, bool]]) -> list[str]:
    lines = ["| what the fault costs, of a step | launches | right rank |", "|---|---|---|"]
    for low, high in itertools.pairwise(COSTS):
        named = [is_named for cost, is_named in truths if low <= cost < high]
        if named:
            how = _between(low, high)
            lines.append(f"| {how} | {len(named)} | {np.mean(named):.1%} |")
    return lines


def _between(low: float, high: float) -> str:
    if low < 0:
        return f"below {high:.1%}"
    return f"{low:.1%} or more" if high == COSTS[-1] else f"{low:.1%} to {high:.1%}"


def _together(
    scores: dict[Setting, Score], *, with_fault: bool
) -> dict[tuple[int, float, int], list[Score]]:
    groups: dict[tuple[int, float, int], list[Score]] = {}
    for setting, found in scores.items():
        if bool(setting.share) == with_fault:
            key = (setting.num_ranks, setting.share, setting.every)
            groups.setdefault(key, []).append(found)
    return groups


def main() -> None:
    """Simulate the grid on all cores and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=200, help="of each setting")
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    grid = list(settings())
    tasks = [(one, options.launches * (1 if one.share else CLEAN_TIMES)) for one in grid]
    with ProcessPoolExecutor() as pool:
        scores = dict(zip(grid, pool.map(score, tasks), strict=True))
    text = markdown(scores)
    print(text)
    if options.write is not None:
        write_section(options.write, "simulated", text)


if __name__ == "__main__":
    main()
