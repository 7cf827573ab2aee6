"""Judges what hvdprof says of a script drawn from a seed: ranks, phase, false names, cost."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.blind_draw import INPUT, NONE, PAUSES, QUEUE, ROTATING, TWO, Drawn
from benchmarks.script_fault_cases import STRAGGLER, Case
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

IN_TURN = "ranks wait for data in turn"
"""Said of any rank that waits: at random, or behind queues of all ranks."""

# A time may follow: "rank 1, 6.27 ms per step".
_RANKS = re.compile(r"\branks? (\d+(?:(?:, | and )\d+(?![\d.]|\s*ms\b))*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is right of what was said; None where the kind of bug does not ask.

    ``is_listed`` is whether WATERFALL has all bugs of single ranks, with their phases, in any row.
    ``is_behind``: the first lines begin with transfer, the largest loss, and have the bug next.
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
    mentioned = [frozenset(map(int, re.findall(r"\d+", ranks))) for ranks in _RANKS.findall(text)]
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
    return said, Judgement(
        ranks=_has_ranks(drawn, text, first, stragglers),
        phase=_has_phase(drawn, text, first),
        is_listed=is_listed,
        is_behind=drawn.kind != NONE and "exposed" in text.partition(" next: ")[0],
        has_false_name=not set().union(*mentioned, *stragglers) <= own,
        cost_error=error,
        why_not=why_not,
    )


def first_lines(said: Said) -> str:
    """The first lines without what to do, which may name other ranks and phases."""
    return re.sub(r"; fix: .*?\.(?= Next: |$)", ".", said.headline).lower()


def _has_ranks(
    drawn: Drawn, text: str, first: frozenset[int], stragglers: list[frozenset[int]]
) -> bool:
    if drawn.kind == NONE:
        return not first
    if drawn.kind in (INPUT, PAUSES):
        return not first and any(word in text for word in ("all ranks", "every rank", IN_TURN))
    if drawn.kind == ROTATING:
        return not first and any(word in text for word in ("any rank", "jitter", IN_TURN))
    truths = [frozenset(ranks) for ranks in drawn.bugs.values()]
    if drawn.kind == TWO:
        return first in truths and set(truths) <= set(stragglers)
    return first == truths[0]


def _has_phase(drawn: Drawn, text: str, first: frozenset[int]) -> bool | None:
    if drawn.kind in (NONE, ROTATING):
        return None
    if first:
        # What is said of others holds other phases.
        text = next(part for part in text.split(" next: ") if _RANKS.search(part))
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
