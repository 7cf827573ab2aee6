"""Judges what hvdprof says of a script drawn from a seed: ranks, phase, false names, cost."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.blind_draw import INPUT, NONE, PAUSES, QUEUE, ROTATING, TWO, Drawn
from benchmarks.script_fault_cases import INPUT_BOUND, PAUSE, STRAGGLER, Case
from benchmarks.script_fault_judgement import (
    LEAST_SHARE,
    PHASE_WORDS,
    Report,
    Said,
    mean_lost_ns,
    read,
)

OF_NO_RANK = (NONE, INPUT, PAUSES, ROTATING)
"""Kinds of bugs of which no rank may be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is right of what was said; None where the kind of bug does not ask.

    ``is_listed`` is whether WATERFALL has all bugs of single ranks, with their phases, in any row.
    ``is_behind``: the first lines name transfer that takes longer than the bug, which is below.
    ``cost_error`` is relative to what the ranks lost. ``why_not`` says why a launch does not count.
    """

    ranks: bool
    phase: bool | None = None
    is_listed: bool | None = None
    is_behind: bool = False
    has_false_name: bool = False
    cost_error: float | None = None
    why_not: str = ""

    @property
    def is_right(self) -> bool:
        """Whether ranks and phase are."""
        return self.ranks and self.phase is not False


def judge(
    drawn: Drawn, report: Report, lost: Mapping[int, Mapping[int, float]]
) -> tuple[Said, Judgement]:
    """What the JSON of `hvdprof analyze` says, and what is right of it.

    Args:
        drawn: The script.
        report: The JSON.
        lost: Seconds that each rank really lost, by rank and step of the script.
    """
    said = read(report, drawn.np)
    text = first_lines(said)
    mentioned = [
        frozenset(map(int, re.findall(r"\d+", ranks)))
        for ranks in re.findall(r"\branks? (\d+(?:(?:, | and )\d+)*)", text)
    ]
    rows = [one for one in said.named if one.kind == STRAGGLER and not one.is_any]
    stragglers = [frozenset(one.ranks) for one in rows]
    listed = {(frozenset(one.ranks), one.phase) for one in rows}
    bugs = {(frozenset(ranks), phase) for phase, ranks in drawn.bugs.items()}
    own = {rank for ranks in drawn.bugs.values() for rank in ranks}
    own = set() if drawn.kind in OF_NO_RANK else own
    first = mentioned[0] if mentioned else frozenset()
    lost_ns, error = _cost(drawn, said, own, lost)
    is_small = not lost_ns >= LEAST_SHARE * said.step_ns
    is_listed = bugs <= listed if own else None
    why_not = "not judged: too busy" if report["verdict"]["is_too_busy"] else ""
    if is_small and drawn.kind != NONE:
        why_not = why_not or f"cost less than {LEAST_SHARE:.0%} of a step"
    is_longer = "exposed" in text and _transfer_ns(report, drawn.np) > lost_ns
    return said, Judgement(
        ranks=_has_ranks(drawn, text, first, stragglers),
        phase=_has_phase(drawn, text, first),
        is_listed=is_listed,
        is_behind=is_longer and _is_below(drawn, said, is_listed=is_listed),
        has_false_name=not set().union(*mentioned, *stragglers) <= own,
        cost_error=error,
        why_not=why_not,
    )


def _transfer_ns(report: Report, num_ranks: int) -> float:
    rows = report["tables"].get("waterfall", ())
    return sum(
        float(row["time_ns"])
        for row in rows
        if row["np"] == num_ranks and row["term"] == "exposed-transfer"
    )


def _is_below(drawn: Drawn, said: Said, *, is_listed: bool | None) -> bool:
    """Whether the bug is named below the first lines."""
    if drawn.kind == PAUSES:
        return any(one.kind == PAUSE for one in said.named)
    if drawn.kind == INPUT:
        return any(kind == INPUT_BOUND for kind, _ in said.findings)
    if drawn.kind == ROTATING:
        return any(one.is_any for one in said.named)
    return bool(is_listed)


def first_lines(said: Said) -> str:
    """The first lines without what to do, which may name other ranks and phases."""
    return said.headline.partition("; fix:")[0].lower()


def _has_ranks(
    drawn: Drawn, text: str, first: frozenset[int], stragglers: list[frozenset[int]]
) -> bool:
    if drawn.kind == NONE:
        return not first
    if drawn.kind in (INPUT, PAUSES):
        return "all ranks" in text or "every rank" in text
    if drawn.kind == ROTATING:
        return not first and ("any rank" in text or "jitter" in text)
    truths = [frozenset(ranks) for ranks in drawn.bugs.values()]
    if drawn.kind == TWO:
        return first in truths and set(truths) <= set(stragglers)
    return first == truths[0]


def _has_phase(drawn: Drawn, text: str, first: frozenset[int]) -> bool | None:
    if drawn.kind in (NONE, ROTATING):
        return None
    of_first = [phase for phase, ranks in drawn.bugs.items() if first == frozenset(ranks)]
    phases = of_first if drawn.kind == TWO else list(drawn.bugs)
    words = [word for phase in phases for word in PHASE_WORDS.get(phase, (phase,))]
    words += ["pause"] if drawn.kind == PAUSES else []
    return any(word in text for word in words)


def _cost(
    drawn: Drawn, said: Said, own: set[int], lost: Mapping[int, Mapping[int, float]]
) -> tuple[float, float | None]:
    """What the bug costs, ns per step, and the error of the cost of the right ranks if known."""
    place = "worker" if drawn.kind == QUEUE else next(iter(drawn.bugs), "")
    case = Case(what=drawn.kind, script="drawn", fault=f"{place}:ms=1" if place else "")
    lost_ns = mean_lost_ns(case, said.steps, lost)
    if not lost_ns >= LEAST_SHARE * said.step_ns:
        return lost_ns, None
    named = [one for one in said.named if one.kind == STRAGGLER and own.issuperset(one.ranks)]
    found_ns = sum(one.cost_ns for one in named)
    return lost_ns, found_ns / lost_ns - 1 if found_ns else None
