"""A contest of straggler rules: hvdprof's and those that other tools publish, on the same steps.

``python -m benchmarks.contest [--launches 60] [--runs DIR] [--write docs/explain/contest.md]``
simulates launches of known truth and asks every rule of ``contest_rules.py`` for its stragglers;
with ``--runs`` also on the real launches that ``script_faults.py`` keeps in DIR. Precision is the
share of right ranks in all that a rule names, clean launches included; recall the share of slow
ranks that it names, in launches that lose 5 % of the step or more to them.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.contest_rules import RULES, Suspect
from benchmarks.page_section import write_section
from benchmarks.script_fault_cases import CASES, STRAGGLER, Case
from benchmarks.script_fault_judgement import LEAST_SHARE, mean_lost_ns
from benchmarks.script_faults import lost
from hvdprof import api
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.steps.step_work import StepWork, Times, step_work
from tests.builders.analysis import autoregressive
from tests.builders.step_works import PARTS_MS, simulated

NUM_STEPS = 100
STEP_MS = 100.0
RANKS = (2, 4, 8, 32)
NOISES = ("independent", "correlated", "with stalls")
PHASES = ("data", "forward", "backward", "optimizer", "outside")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is slow: ranks, the share of a step that they lose, in which steps."""

    what: str
    num_slow: int = 0
    share: float = 0.0
    first: int = 0
    every: int = 1


SCENARIOS = (
    Scenario("none (clean)"),
    Scenario("all ranks pause in every 10th step", 0, 2.0, 9, 10),
    Scenario("one rank, 10 % of a step", 1, 0.1),
    Scenario("one rank, 20 % of a step", 1, 0.2),
    Scenario("one rank, 50 % of a step", 1, 0.5),
    Scenario("one rank in every 4th step, 60 %", 1, 0.6, 3, 4),
    Scenario("one rank from step 60 on, 30 %", 1, 0.3, 60),
    Scenario("two ranks alike, 30 %", 2, 0.3),
)


@dataclass(frozen=True, slots=True)
class Launch:
    """Steps and their truth: the slow ranks, their phases, and what they cost a step in ns."""

    scenario: str
    work: StepWork
    ranks: frozenset[int]
    phases: tuple[str, ...]
    cost_ns: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule made of a launch; ``cost_error`` is NaN where it states no cost."""

    scenario: str
    num_ranks: int
    num_slow: int
    num_right: int
    num_wrong: int
    phase_right: bool
    cost_error: float


def simulated_launch(scenario: Scenario, num_ranks: int, noise: str, seed: int) -> Launch:
    """A launch of 100 steps of 100 ms whose slow ranks and phase are drawn by the seed."""
    rng = np.random.default_rng([seed, num_ranks, SCENARIOS.index(scenario), NOISES.index(noise)])
    shape = (NUM_STEPS, num_ranks)
    extra = _noise(noise, shape, rng)
    slow = rng.permutation(num_ranks)[: scenario.num_slow]
    hit = slow if len(slow) else np.arange(num_ranks)
    fault = np.zeros(shape)
    rows = np.arange(scenario.first, NUM_STEPS, scenario.every)
    fault[np.ix_(rows, hit)] = scenario.share * STEP_MS
    phase = PHASES[seed % len(PHASES)]
    both = {**extra, phase: extra.get(phase, 0.0) + fault}
    clean = simulated(*shape, extra_ms=extra, seed=seed)
    work = simulated(*shape, extra_ms=both, seed=seed)
    cost = float(work.step_times.mean() - clean.step_times.mean()) if len(slow) else 0.0
    return Launch(scenario.what, work, frozenset(slow.tolist()), (phase,), cost)


def _noise(noise: str, shape: tuple[int, int], rng: np.random.Generator) -> dict[str, Times]:
    if noise == "correlated":
        series = np.stack([autoregressive(rng, shape[0], 0.8) for _ in range(shape[1])], axis=1)
        return {"backward": 0.02 * PARTS_MS["backward"] * series}
    if noise == "with stalls":
        # Any rank, once in fifty steps, for up to a fifth of a step.
        return {"forward": (rng.random(shape) < 0.02) * rng.uniform(0, 0.2 * STEP_MS, shape)}
    return {}


def recorded_launches(folder: Path) -> Iterator[Launch]:
    """The kept launches of ``script_faults.py`` that name ranks or should name none."""
    for case in CASES:
        if (folder / case.name / "done").exists() and not case.truth.is_any:
            launch = _recorded(case, folder / case.name)
            if launch is not None:
                yield launch


def _recorded(case: Case, folder: Path) -> Launch | None:
    run = api.load_run(folder / "run")
    works = step_work(run.steps, run.events, api.analyze_run(run).job_steps)
    own = [work for key, work in works.items() if f"-np{case.np}-throughput" in key[0]]
    if not own or not len(rank_times(own[0]).steps):
        return None
    is_slow = case.truth.kind == STRAGGLER
    cost = mean_lost_ns(case, own[0].steps.tolist(), lost(folder / "lost", case.np))
    ranks = frozenset(case.truth.ranks if is_slow else ())
    return Launch(case.what, own[0], ranks, case.truth.phases, cost if is_slow else 0.0)


def judged(launch: Launch, suspects: Iterable[Suspect]) -> Outcome:
    """How many names are right and wrong, and whether phase and cost of the right ones are."""
    right = [one for one in suspects if one.rank in launch.ranks]
    cost = sum(one.cost_ns for one in right)
    counts = launch.cost_ns >= LEAST_SHARE * launch.work.step_times.mean()
    return Outcome(
        scenario=launch.scenario,
        num_ranks=len(launch.work.ranks),
        num_slow=len(launch.ranks) if counts else 0,
        num_right=len(right),
        num_wrong=len([one for one in suspects if one.rank not in launch.ranks]),
        phase_right=bool(right) and all(one.phase in launch.phases for one in right),
        cost_error=cost / launch.cost_ns - 1 if right and launch.cost_ns else float("nan"),
    )


def outcomes(task: tuple[Scenario, int, str, int]) -> dict[str, list[Outcome]]:
    """What every rule makes of so many simulated launches of a scenario."""
    scenario, num_ranks, noise, num = task
    launches = [simulated_launch(scenario, num_ranks, noise, seed) for seed in range(num)]
    return {name: [judged(one, rule(one.work)) for one in launches] for name, rule in RULES.items()}


def tasks(num: int) -> list[tuple[Scenario, int, str, int]]:
    """All scenarios; ranks alike need a majority of others."""
    return [
        (scenario, num_ranks, noise, num)
        for scenario in SCENARIOS
        for num_ranks in RANKS
        for noise in NOISES
        if num_ranks > 2 * scenario.num_slow or scenario.num_slow < 2
    ]


def table(found: dict[str, list[Outcome]]) -> str:
    """Precision, recall, phase, cost and clean launches of every rule, as Markdown."""
    lines = [
        "| rule | precision | recall | right phase, of ranks found | error of the cost: median, "
        "90 % within | launches without a slow rank: one named |",
        "|---|---|---|---|---|---|",
    ]
    for name, all_of in found.items():
        right = sum(one.num_right for one in all_of)
        names = right + sum(one.num_wrong for one in all_of)
        hits = [one for one in all_of if one.num_right]
        errors = np.abs([one.cost_error for one in hits])
        errors = errors[np.isfinite(errors)]
        cost = f"{np.median(errors):.0%}, {np.quantile(errors, 0.9):.0%}" if len(errors) else "-"
        has_phase = any(one.phase_right for one in hits)
        cells = (
            _share(right, names),
            _recall(all_of),
            _share(sum(one.phase_right for one in hits), len(hits)) if has_phase else "-",
            cost,
            _clean(all_of),
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_scenario(found: dict[str, list[Outcome]]) -> str:
    """Recall of every rule by scenario; where no rank is slow, how often one is named."""
    scenarios = dict.fromkeys(one.scenario for of in found.values() for one in of)
    lines = [f"| what | {' | '.join(found)} |", "|---" * (1 + len(found)) + "|"]
    for scenario in scenarios:
        rows = {name: [one for one in of if one.scenario == scenario] for name, of in found.items()}
        is_clean = not any(one.num_slow for of in rows.values() for one in of)
        cells = [_clean(of) if is_clean else _recall(of) for of in rows.values()]
        what = f"{scenario}: a rank named" if is_clean else scenario
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _recall(outcomes_of: Sequence[Outcome]) -> str:
    large = [one for one in outcomes_of if one.num_slow]
    return _share(sum(one.num_right for one in large), sum(one.num_slow for one in large))


def _clean(outcomes_of: Sequence[Outcome]) -> str:
    clean = [one for one in outcomes_of if not one.num_slow and not one.num_right]
    return _share(sum(one.num_wrong > 0 for one in clean), len(clean))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%} of {whole}" if whole else "-"


def main() -> None:
    """Let all rules judge all launches and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=60, help="simulated, of each setting")
    parser.add_argument("--runs", type=Path, help="folder of script_faults.py")
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    found: dict[str, list[Outcome]] = {name: [] for name in RULES}
    with ProcessPoolExecutor() as pool:
        for part in pool.map(outcomes, tasks(options.launches)):
            for name, of in part.items():
                found[name] += of
    sections = {"simulated": found}
    if options.runs:
        launches = list(recorded_launches(options.runs))
        sections["real"] = {
            name: [judged(one, rule(one.work)) for one in launches] for name, rule in RULES.items()
        }
    for section, by_rule in sections.items():
        text = f"{table(by_rule)}\n\n{by_scenario(by_rule)}"
        print(text)
        if options.write is not None:
            write_section(options.write, section, text)


if __name__ == "__main__":
    main()
