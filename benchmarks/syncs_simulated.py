"""How often the right rank is named first where a step has several synchronizations.

``python -m benchmarks.syncs_simulated [--launches 40] [--write PAGE]`` simulates launches of FSDP2:
a step waits for the parameters of each group in forward and in backward, and for its gradients.
One rank is slower by a known share of the step in a known phase, in one group or spread over all of
them, or none is. The tables go through the analysis that recorded launches go through. Collectives
wait where they are submitted, as on a host, or are in flight while the rank computes, as on a GPU.
Real launches are in ``tests/test_run_fsdp.py``.
"""

import argparse
import itertools
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.ranks.account import costs_of_ranks, rank_costs
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.steps.step_work import StepWork, Times
from tests.builders.analysis import autoregressive
from tests.builders.synced_steps import MS, Piece, fsdp_step, launch_of, own_work

NUM_STEPS = 80
STEP_MS = 97.0
PHASES = ("data", "forward", "backward")
SHARES = (0.02, 0.05, 0.07, 0.1, 0.2)
RANKS = (2, 4, 8)
GROUPS = (3, 12)
NOISES = ("independent", "correlated", "with stalls")
IN_FLIGHT_MS = 2.0
CLEAN_TIMES = 3
COSTS = (-1.0, 0.03, 0.05, 0.07, 0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """Launches that differ by chance alone; ``share`` of the step is the delay, 0 for none.

    ``in_flight`` says that collectives are submitted before the rank waits for them.
    """

    num_ranks: int
    num_groups: int
    noise: str
    in_flight: bool
    share: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one launch: true cost of the fault as a share of the step, and what was named.

    ``is_first`` says that the cause that comes first names this rank alone, ``is_costliest`` that
    no rank has a larger step-time cost; ``gain_error`` is relative, NaN where the rank was not
    named.
    """

    true_cost: float
    is_first: bool
    is_phase_right: bool
    is_costliest: bool
    names_another: bool
    gain_error: float


def outcomes(task: tuple[Setting, int]) -> list[Outcome]:
    """Simulate and analyse the launches of one setting."""
    setting, num = task
    return [_outcome(setting, seed) for seed in range(num)]


def _outcome(setting: Setting, seed: int) -> Outcome:
    rng = np.random.default_rng([seed, setting.num_ranks, round(1e3 * setting.share)])
    pieces = fsdp_step(setting.num_groups, STEP_MS)
    phase, rank = PHASES[seed % len(PHASES)], int(rng.integers(setting.num_ranks))
    noise = _noise(setting, pieces, rng)
    clean = _work(setting, pieces, noise, seed)
    fault = {} if not setting.share else _fault(setting, pieces, phase, rank, rng)
    # A share of the whole step, in which all ranks also transfer and wait.
    fault = {place: one * float(clean.step_times.mean()) / MS for place, one in fault.items()}
    both = {place: noise.get(place, 0.0) + fault.get(place, 0.0) for place in {*noise, *fault}}
    work = _work(setting, pieces, both, seed)
    step_ns = float(work.step_times.mean())
    truth_ns = step_ns - float(clean.step_times.mean())
    times = rank_times(work)
    causes = named_causes(times)
    is_first = bool(causes) and causes[0].ranks == (rank,) and bool(setting.share)
    error = np.nan
    if is_first:
        credits = launch_causes(times, [[one] for one in causes]).named
        error = credits[0].saved_if_removed * step_ns / truth_ns - 1
    return Outcome(
        true_cost=truth_ns / step_ns,
        is_first=is_first,
        is_phase_right=is_first and causes[0].phase == phase,
        is_costliest=int(costs_of_ranks(rank_costs(times, ("", "")), work.ranks).argmax()) == rank,
        names_another=any(one.ranks != (rank,) or not setting.share for one in causes),
        gain_error=error,
    )


def _work(
    setting: Setting, pieces: tuple[Piece, ...], extra_ms: dict[int, Times | float], seed: int
) -> StepWork:
    own = own_work(pieces, (NUM_STEPS, setting.num_ranks), extra_ms=extra_ms, seed=seed)
    early = np.full(len(pieces), IN_FLIGHT_MS * MS) if setting.in_flight else None
    return launch_of(pieces, own, submits_early=early).work


def _fault(
    setting: Setting, pieces: tuple[Piece, ...], phase: str, rank: int, rng: np.random.Generator
) -> dict[int, Times | float]:
    """As shares of the step; in every second launch in one group, else in all groups alike."""
    # What is in a phase for a moment only does no work of the script.
    places = [place for place, one in enumerate(pieces) if one.phase == phase and one.own_ms > 1]
    chosen = [int(rng.choice(places))] if rng.random() < 0.5 else places
    extra = np.zeros((NUM_STEPS, setting.num_ranks))
    extra[:, rank] = setting.share / len(chosen)
    return dict.fromkeys(chosen, extra)


def _noise(
    setting: Setting, pieces: tuple[Piece, ...], rng: np.random.Generator
) -> dict[int, Times | float]:
    shape = (NUM_STEPS, setting.num_ranks)
    places = [place for place, one in enumerate(pieces) if one.phase == "backward"]
    if setting.noise == "correlated":
        series = np.stack([autoregressive(rng, NUM_STEPS, 0.8) for _ in range(shape[1])], axis=1)
        long = [place for place in places if pieces[place].own_ms > 1]
        return {place: 0.02 * pieces[place].own_ms * series for place in long}
    if setting.noise == "with stalls":
        # Any rank, once in fifty steps, for up to a fifth of a step, in any group.
        stalls = (rng.random(shape) < 0.02) * rng.uniform(0, 0.2 * STEP_MS, shape)
        return {int(rng.choice(places)): stalls}
    return {}


def settings() -> list[Setting]:
    """The grid."""
    return [
        Setting(*one)
        for one in itertools.product(RANKS, GROUPS, NOISES, (False, True), (0.0, *SHARES))
    ]


def markdown(found: dict[Setting, list[Outcome]]) -> str:
    """The tables as Markdown, numbers of groups, kinds of noise and of collectives together."""
    lines = [
        "| ranks | delay, of a step | launches | right rank first | right phase "
        "| largest step-time cost is its | another one named "
        "| error of the gain: median, 90 % within |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for num_ranks, share in itertools.product(RANKS, SHARES):
        own = _of(found, num_ranks, (share,))
        lines.append(f"| {num_ranks} | {share:.0%} | {len(own)} | {_row(own)} |")
    faulty = [one for num_ranks in RANKS for one in _of(found, num_ranks, SHARES)]
    lines += [
        "",
        "| what the fault costs, of a step | launches | right rank first | right phase "
        "| largest step-time cost is its | another one named "
        "| error of the gain: median, 90 % within |",
        "|---|---|---|---|---|---|---|",
    ]
    for low, high in itertools.pairwise(COSTS):
        own = [one for one in faulty if low <= one.true_cost < high]
        lines.append(f"| {_between(low, high)} | {len(own)} | {_row(own)} |")
    lines += ["", "| ranks | clean launches | of them naming anything |", "|---|---|---|"]
    for num_ranks in RANKS:
        own = _of(found, num_ranks, (0.0,))
        alarms = sum(one.names_another for one in own)
        lines.append(f"| {num_ranks} | {len(own)} | {alarms} ({alarms / len(own):.2%}) |")
    return "\n".join(lines)


def _of(
    found: dict[Setting, list[Outcome]], num_ranks: int, shares: tuple[float, ...]
) -> list[Outcome]:
    """The launches of so many ranks with one of these delays."""
    wanted = (
        own
        for setting, own in found.items()
        if setting.num_ranks == num_ranks and setting.share in shares
    )
    return list(itertools.chain.from_iterable(wanted))


def _row(own: list[Outcome]) -> str:
    if not own:
        return " | ".join([""] * 5)
    errors = np.abs([one.gain_error for one in own if one.gain_error == one.gain_error])
    error = f"{np.median(errors):.1%}, {np.quantile(errors, 0.9):.1%}" if len(errors) else ""
    shares = (
        _share(getattr(one, name) for one in own)
        for name in ("is_first", "is_phase_right", "is_costliest", "names_another")
    )
    return " | ".join([*shares, error])


def _share(flags: Iterable[bool]) -> str:
    return f"{np.mean(list(flags)):.1%}"


def _between(low: float, high: float) -> str:
    if low < 0:
        return f"below {high:.0%}"
    return f"{low:.0%} or more" if high == COSTS[-1] else f"{low:.0%} to {high:.0%}"


def main() -> None:
    """Simulate the grid and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=40, help="of each setting with a fault")
    parser.add_argument("--jobs", type=int, help="processes; one per core if not given")
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    grid = settings()
    tasks = [(one, options.launches * (1 if one.share else CLEAN_TIMES)) for one in grid]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = dict(zip(grid, pool.map(outcomes, tasks), strict=True))
    text = markdown(found)
    print(text)
    if options.write is not None:
        write_section(options.write, "synced", text)


if __name__ == "__main__":
    main()
