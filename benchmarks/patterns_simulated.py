"""How often the patterns of real jobs are recognised, on simulated launches of known truth.

``python -m benchmarks.patterns_simulated [--launches 100] [--write PAGE]`` sends simulated launches
with each pattern of ``tests/builders/launch_patterns.py``, and with each of its counter-examples,
through the detection and the replay that recorded launches go through. It prints how often ranks,
phase and pattern are right, how often anything else is named, and the errors of period and cost.
Ranks, patterns and noises are those of the tests.
"""

import argparse
import itertools
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.ranks.named_cause import PERIODIC
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from tests.builders.launch_patterns import (
    COUNTER_EXAMPLES,
    NOISES,
    PATTERNS,
    Shape,
    launch_of,
)

NUM_STEPS = 100
RANKS = (2, 4, 8, 32)
SCENES = {make.__name__: make for make in (*PATTERNS, *COUNTER_EXAMPLES)}


@dataclass(frozen=True, slots=True)
class Task:
    """Launches of one scene that differ by chance alone."""

    scene: str
    num_ranks: int
    noise: str
    num: int


@dataclass(frozen=True, slots=True)
class Score:
    """Of so many launches with truths: truths, and those whose ranks, phase, pattern are right.

    ``named`` counts the causes that are named, ``another`` the launches that name something that
    is not there. ``period_errors`` and ``cost_errors`` are relative; costs are the credits of all
    causes of a launch together, against the same launch without the delays.
    """

    launches: int
    truths: int
    ranks: int
    phase: int
    pattern: int
    named: int
    another: int
    period_errors: tuple[float, ...]
    cost_errors: tuple[float, ...]


def score(task: Task) -> Score:
    """Simulate and analyse the launches of a task."""
    scores = [_score_launch(task, seed) for seed in range(task.num)]
    return added(scores)


def added(scores: Sequence[Score]) -> Score:
    """The sum of scores."""
    numbers = ("launches", "truths", "ranks", "phase", "pattern", "named", "another")
    return Score(
        **{name: sum(getattr(one, name) for one in scores) for name in numbers},
        period_errors=tuple(itertools.chain.from_iterable(one.period_errors for one in scores)),
        cost_errors=tuple(itertools.chain.from_iterable(one.cost_errors for one in scores)),
    )


def _score_launch(task: Task, seed: int) -> Score:
    shape = Shape(NUM_STEPS, task.num_ranks, np.random.default_rng([seed, task.num_ranks]))
    scene = SCENES[task.scene](shape)
    noise_rng = np.random.default_rng([seed, task.num_ranks, 1])
    work = launch_of(scene, replace(shape, rng=noise_rng), task.noise, seed)
    times = rank_times(work)
    causes = named_causes(times)
    right = [
        (truth, cause)
        for truth in scene.truths
        for cause in causes
        if truth.is_of_ranks(cause, task.num_ranks)
    ]
    found = {id(cause) for _, cause in right}
    costs: list[float] = []
    if right and len(found) == len(causes) == len(scene.truths):
        clean_rng = np.random.default_rng([seed, task.num_ranks, 1])
        clean = launch_of(
            replace(scene, extra_ms={}), replace(shape, rng=clean_rng), task.noise, seed
        )
        truth_ns = float(work.step_times.mean() - clean.step_times.mean())
        credit = sum(one.share for one in launch_causes(times, [[one] for one in causes]).named)
        costs = [credit * float(work.step_times.mean()) / truth_ns - 1]
    periods = [
        cause.period_steps / truth.period - 1
        for truth, cause in right
        if cause.pattern == PERIODIC and truth.period == truth.period
    ]
    return Score(
        launches=1,
        truths=len(scene.truths),
        ranks=len({id(truth) for truth, _ in right}),
        phase=len({id(truth) for truth, cause in right if cause.phase == truth.phase}),
        pattern=len({id(truth) for truth, cause in right if cause.pattern in truth.patterns}),
        named=len(causes),
        another=any(id(cause) not in found for cause in causes),
        period_errors=tuple(periods),
        cost_errors=tuple(costs),
    )


def markdown(scores: dict[Task, Score]) -> str:
    """The tables as Markdown, the kinds of noise and numbers of ranks together."""
    lines = [
        "| what happens | launches | right ranks | right phase | right pattern "
        "| something else named | error of the period, largest "
        "| error of the cost: median, 90 % within |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for make in PATTERNS:
        one = _of(scores, scene=make.__name__)
        period = f"{np.abs(one.period_errors).max():.1%}" if one.period_errors else ""
        lines.append(
            f"| {_title(make.__doc__)} | {one.launches} | {one.ranks / one.truths:.1%} "
            f"| {one.phase / one.truths:.1%} | {one.pattern / one.truths:.1%} "
            f"| {one.another / one.launches:.1%} | {period} | {_errors(one.cost_errors)} |"
        )
    lines += ["", *_by_ranks(scores)]
    lines += ["", "| counter-example | launches | of them naming something |", "|---|---|---|"]
    for make in COUNTER_EXAMPLES:
        one = _of(scores, scene=make.__name__)
        share = f"{one.another} ({one.another / one.launches:.2%})"
        lines.append(f"| {_title(make.__doc__)} | {one.launches} | {share} |")
    return "\n".join(lines)


def _by_ranks(scores: dict[Task, Score]) -> list[str]:
    lines = [
        "| ranks | launches with a pattern | recall: right ranks "
        "| precision: named causes that are right | error of the cost: median, 90 % within |",
        "|---|---|---|---|---|",
    ]
    patterns = {make.__name__ for make in PATTERNS}
    for num_ranks in sorted({task.num_ranks for task in scores}):
        one = added(
            [
                score
                for task, score in scores.items()
                if task.num_ranks == num_ranks and task.scene in patterns
            ]
        )
        lines.append(
            f"| {num_ranks} | {one.launches} | {one.ranks / one.truths:.1%} "
            f"| {one.ranks / max(one.named, 1):.1%} | {_errors(one.cost_errors)} |"
        )
    return lines


def _of(scores: dict[Task, Score], scene: str) -> Score:
    return added([score for task, score in scores.items() if task.scene == scene])


def _errors(errors: Sequence[float]) -> str:
    if not errors:
        return ""
    sizes = np.abs(errors)
    return f"{np.median(sizes):.1%}, {np.quantile(sizes, 0.9):.1%}"


def _title(doc: str | None) -> str:
    return " ".join((doc or "").split()).rstrip(".")


def main() -> None:
    """Simulate all scenes on all cores and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=100, help="of each scene, size and noise")
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    tasks = [
        Task(scene, num_ranks, noise, options.launches)
        for scene, num_ranks, noise in itertools.product(SCENES, RANKS, NOISES)
    ]
    with ProcessPoolExecutor() as pool:
        scores = dict(zip(tasks, pool.map(score, tasks), strict=True))
    text = markdown(scores)
    print(text)
    if options.write is not None:
        write_section(options.write, "patterns", text)


if __name__ == "__main__":
    main()
