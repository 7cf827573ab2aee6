"""Reads what hvdprof says of a run from its JSON, and judges it by the truth of a case.

Only keys of docs/reference/json.md are read, and all of them here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.script_fault_cases import (
    INPUT_BOUND,
    IRREGULAR,
    PAUSE,
    PERIODIC,
    STRAGGLER,
    Case,
    Truth,
)

Report = Mapping[str, Any]
"""The JSON of `hvdprof analyze`."""

LEAST_SHARE = 0.05
COST_TOLERANCE = 0.15
PERIOD_TOLERANCE = 0.1

NAMING_FINDINGS = {
    "persistent-straggler": STRAGGLER,
    "transient-straggler": STRAGGLER,
    "stalled-steps": PAUSE,
    "input-bound": INPUT_BOUND,
    "compute-inflation": "compute slowdown",
    "outside-phases": "time outside all phases",
}
"""Findings that name ranks, or all of them; jitter and transfer name none."""

PHASE_WORDS = {
    "data": ("data", "input"),
    "outside": ("between steps", "outside"),
    "before_update": ("before the update",),
    "evaluation": ("evaluates alone",),
    "mixed": ("",),
}


@dataclass(frozen=True, slots=True)
class Named:
    """A straggler or pause that hvdprof names; ``period`` is NaN where it has none.

    ``is_any`` is true where it hits now one of the ranks, now another.
    """

    kind: str
    ranks: tuple[int, ...]
    is_any: bool
    phase: str
    pattern: str
    period: float
    cost_ns: float


@dataclass(frozen=True, slots=True)
class Said:
    """What hvdprof says of a run: its causes, findings as (kind, title), and the first lines."""

    named: tuple[Named, ...]
    findings: tuple[tuple[str, str], ...]
    headline: str
    step_ns: float
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which parts of the truth hvdprof got right; None where the case does not ask."""

    ranks: bool | None = None
    phase: bool | None = None
    pattern: bool | None = None
    cost: bool | None = None
    cost_error: float | None = None
    alone: bool
    headline: bool | None = None

    @property
    def is_right(self) -> bool:
        """Whether all of it is."""
        parts = {name: value for name, value in asdict(self).items() if name != "cost_error"}
        return all(value is not False for value in parts.values())


def read(report: Report, num_ranks: int) -> Said:
    """What the JSON of `hvdprof analyze` says of the cell of so many ranks."""
    tables = report["tables"]
    ids = {one["pass_id"] for one in tables["job_steps"]}
    # Names of passes say rank count and mode (docs/reference/run_directory.md).
    passes = {pass_id for pass_id in ids if f"-np{num_ranks}-throughput" in pass_id}
    steady = [one for one in tables["job_steps"] if one["pass_id"] in passes and one["steady"]]
    findings = tuple(
        (NAMING_FINDINGS[one["id"]], one["title"])
        for one in report["findings"]
        if one["id"] in NAMING_FINDINGS and one["np"] in (num_ranks, None)
    )
    step_ns = float(_mean([one["dur_ns"] for one in steady]))
    return Said(
        named=tuple(_named(tables.get("waterfall", ()), num_ranks)),
        findings=findings,
        headline=report["verdict"]["sentence"],
        step_ns=step_ns,
        steps=tuple(sorted(one["step"] for one in steady)),
    )


def _named(rows: Sequence[Report], num_ranks: int) -> Iterator[Named]:
    """The stragglers and pauses of the waterfall of the cell."""
    everyone = tuple(range(num_ranks))
    for row in rows:
        if row["np"] == num_ranks and row["term"] in (STRAGGLER, PAUSE):
            listed = row["ranks"] not in ("all", "any")
            yield Named(
                kind=row["term"],
                ranks=tuple(map(int, row["ranks"].split(", "))) if listed else everyone,
                is_any=row["ranks"] == "any",
                phase=row["phase"],
                pattern=row["pattern"],
                period=float("nan") if row["period_steps"] is None else row["period_steps"],
                cost_ns=row["time_ns"],
            )


def judge(case: Case, said: Said, lost: Mapping[int, Mapping[int, float]]) -> Verdict:
    """What is right in what was said.

    Args:
        case: The case.
        said: Of its run.
        lost: Seconds that each rank really lost, by rank and step of the script.
    """
    truth = case.truth
    if not truth.kind:
        return Verdict(alone=not said.named and not said.findings)
    own = [one for one in said.named if _is_about(one, truth)]
    strangers = [one for one in said.named if one not in own]
    if truth.kind == INPUT_BOUND:
        is_said = any(kind == INPUT_BOUND for kind, _ in said.findings)
        return Verdict(
            ranks=is_said or bool(own),
            alone=not strangers and all(kind == INPUT_BOUND for kind, _ in said.findings),
            headline=_in_headline(said.headline, truth),
        )
    kinds = [kind for kind, _ in said.findings]
    cost_ns = mean_lost_ns(case, said.steps, lost)
    found_ns = sum(one.cost_ns for one in own)
    error = found_ns / cost_ns - 1 if own and cost_ns else None
    is_large = cost_ns >= LEAST_SHARE * said.step_ns
    return Verdict(
        ranks=bool(own) and _ranks_of(own) == set(truth.ranks),
        phase=bool(own) and all(one.phase in truth.phases for one in own),
        pattern=bool(own) and all(_has_pattern(one, truth) for one in own),
        cost=(error is not None and abs(error) <= COST_TOLERANCE) if is_large else None,
        cost_error=error,
        alone=not strangers and len(own) <= 1 and kinds in ([], [truth.kind]),
        headline=_in_headline(said.headline, truth),
    )


def mean_lost_ns(
    case: Case, steps: Sequence[int], lost: Mapping[int, Mapping[int, float]]
) -> float:
    """What the fault adds to an analysed step in the mean: in each the slowest rank counts."""
    shift = 1 if case.is_after_step else 0
    largest = [
        max((of.get(step - shift, 0.0) for of in lost.values()), default=0) for step in steps
    ]
    return 1e9 * _mean(largest)


def _ranks_of(named: Sequence[Named]) -> set[int]:
    return {rank for one in named for rank in one.ranks}


def _is_about(one: Named, truth: Truth) -> bool:
    if truth.kind == STRAGGLER:
        is_same = set(one.ranks) <= set(truth.ranks) and one.is_any <= truth.is_any
        return one.kind == STRAGGLER and is_same
    return one.kind == truth.kind


def _has_pattern(one: Named, truth: Truth) -> bool:
    if one.pattern != truth.pattern:
        return False
    if truth.pattern != PERIODIC:
        return True
    return bool(abs(one.period - truth.period) <= PERIOD_TOLERANCE * truth.period)


def _in_headline(headline: str, truth: Truth) -> bool:
    """Whether the first lines name the ranks, and one of the phases unless they are random."""
    text = headline.lower()
    if truth.is_any:
        ranks = "any rank"
    elif truth.kind in (PAUSE, INPUT_BOUND):
        ranks = "all ranks|every rank"
    else:
        # Not "ranks 0 and 1" where rank 0 is meant.
        ranks = rf"\branks? {r'(?:, | and )'.join(map(str, truth.ranks))}\b(?!, \d| and \d)"
    words = [word for phase in truth.phases for word in PHASE_WORDS.get(phase, (phase,))]
    # Of delays at random the first lines state how often and how long, not where.
    has_phase = truth.pattern == IRREGULAR or any(word in text for word in words)
    return bool(re.search(ranks, text)) and has_phase


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")
