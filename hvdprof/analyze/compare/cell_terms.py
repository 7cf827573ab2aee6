"""The step time of a cell in both runs as the same terms, launch by launch.

The terms are those of the waterfall without a baseline: named causes, jitter, exposed transfer, and
the time of the normal ranks, which is split into phases. Changes of single ranks are first taken
out of the run in which the rank takes longer, and have terms of their own. So the terms of each
launch sum to its step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.causes.cell_causes import MOST_NAMED, CellCause
from hvdprof.analyze.causes.launch_causes import DATA, OUTSIDE, LaunchCauses, launch_causes
from hvdprof.analyze.causes.shapley import shapley
from hvdprof.analyze.compare.cell_launches import CellLaunches
from hvdprof.analyze.compare.rank_changes import RankChange
from hvdprof.analyze.ranks.named_cause import PERSISTENT, STRAGGLER, NamedCause
from hvdprof.analyze.ranks.rank_times import RankDelay, RankTimes, replayed_without
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools
from hvdprof.model.causes import (
    EXPOSED_TRANSFER,
    INPUT_BOUND,
    JITTER,
    OUTSIDE_PHASES,
    OWN_WORK,
    RANK_CHANGE,
    SHARED_PHASES,
)

Members = tuple[NamedCause, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A term in each launch of both runs [launches], ns per step.

    ``term``, ``ranks``, ``phase`` and ``pattern`` are as in WATERFALL. ``change`` is the change of
    a rank that the term is the cost of, else None.
    """

    term: str
    ranks: str
    phase: str
    pattern: str
    first: Times
    second: Times
    change: RankChange | None = None


@dataclass(frozen=True, slots=True)
class _SharedCause:
    """A named cause with its members in each launch of both runs."""

    cause: CellCause
    first: tuple[Members, ...]
    second: tuple[Members, ...]


def cell_terms(
    first: CellLaunches, second: CellLaunches, changes: Sequence[RankChange]
) -> list[Term]:
    """The terms of both runs; those of a launch sum to its mean step time.

    Args:
        first: The launches of the first run.
        second: Those of the second run.
        changes: The ranks that changed alone.
    """
    longer = [tuple(change for change in changes if change.is_of(side)) for side in (0, 1)]
    named = [
        _of_change(one, costs, side, int(of_run.times[0].ranks[one.place]))
        for side, of_run in enumerate((first, second))
        for one, costs in zip(longer[side], _costs(of_run, longer[side]), strict=True)
    ]
    first, second = (
        side.without([change.delay for change in own])
        for side, own in zip((first, second), longer, strict=True)
    )
    shared = _shared_causes(first, second)
    sides = [
        [
            launch_causes(one, [member[number] for member in members])
            for number, one in enumerate(times)
        ]
        for times, members in (
            (first.times, [cause.first for cause in shared]),
            (second.times, [cause.second for cause in shared]),
        )
    ]
    means = [first.means_ns, second.means_ns]
    has_phases = first.has_phases and second.has_phases
    shares = [[_shares(launch, has_phases=has_phases) for launch in side] for side in sides]
    found = named
    for number, one in enumerate(shared):
        own = [np.array([launch.named[number].share for launch in side]) for side in sides]
        found.append(_of_cause(one.cause, own[0] * means[0], own[1] * means[1]))
    for name in shares[0][0]:
        both = [np.array([launch[name] for launch in side]) for side in shares]
        found.append(Term(name, "", "", "", both[0] * means[0], both[1] * means[1]))
    return found


def _shares(one: LaunchCauses, *, has_phases: bool) -> dict[str, float]:
    """The terms without a name, as shares of the step."""
    terms = {JITTER: one.jitter.share, EXPOSED_TRANSFER: one.transfer.share}
    if not has_phases:
        return terms | {OWN_WORK: one.normal_share}
    return (
        terms
        | {INPUT_BOUND: one.part(DATA), OUTSIDE_PHASES: one.normal[OUTSIDE]}
        | {phase: one.phases[phase] for phase in SHARED_PHASES}
    )


def _costs(launches: CellLaunches, changes: Sequence[RankChange]) -> Times:
    """[changes, launches] What each launch loses by the changes, ns per step."""
    delays = [change.delay for change in changes]
    return np.array([delay_costs(one, delays) for one in launches.times]).T


def delay_costs(times: RankTimes, delays: Sequence[RankDelay]) -> list[float]:
    """The cost of each delay: what the replayed step loses without it, ns per step.

    Several overlap: each has its Shapley value, and the sum is what the step loses without all.

    Args:
        times: The own times of a launch.
        delays: At most ``shapley.MOST_PLAYERS``, one for each rank and phase.
    """
    players = [
        (times.own_ns - replayed_without(times, [delay]).own_ns).sum(axis=2).T for delay in delays
    ]
    whole = (times.own_ns.sum(axis=2) + times.transfer_ns).T
    credits = shapley(whole - sum(players), players)
    return [value * times.step_ns / times.job_ns for value in credits.values]


def _of_change(change: RankChange, costs: Times, side: int, rank: int) -> Term:
    """The cost of a change in the run where the rank takes longer; in the other it is 0."""
    nothing = np.zeros_like(costs)
    times = (nothing, costs) if side else (costs, nothing)
    return Term(RANK_CHANGE, str(rank), change.phase, PERSISTENT, *times, change)


def _of_cause(cause: CellCause, first: Times, second: Times) -> Term:
    return Term(cause.kind, cause.ranks, cause.phase, cause.pattern, first, second)


def _shared_causes(first: CellLaunches, second: CellLaunches) -> list[_SharedCause]:
    """The named causes of both, those that cost most steps first, at most ``MOST_NAMED``.

    Noise may blur the phase: causes of the same ranks and pattern are the same one. A persistent
    straggler of one run alone may just miss the threshold in the other: it is taken out of both.
    """
    left = list(second.causes)
    found = []
    for cause in first.causes:
        other = _partner(cause, left)
        if other is not None:
            left.remove(other)
        members = (
            other.members if other is not None else tuple(_missing(cause, second, second.causes))
        )
        found.append(_SharedCause(cause, cause.members, members))
    for cause in left:
        missing = tuple(_missing(cause, first, first.causes))
        found.append(_SharedCause(cause, missing, cause.members))
    return found[:MOST_NAMED]


def _partner(cause: CellCause, others: Sequence[CellCause]) -> CellCause | None:
    alike = [
        other
        for other in others
        if (other.kind, other.ranks, other.pattern) == (cause.kind, cause.ranks, cause.pattern)
    ]
    same = [other for other in alike if other.phase == cause.phase]
    return next(iter([*same, *alike]), None)


def _missing(
    cause: CellCause, launches: CellLaunches, others: Sequence[CellCause]
) -> Iterator[Members]:
    """The members of a cause in launches that do not name it."""
    is_lasting = (cause.kind, cause.pattern) == (STRAGGLER, PERSISTENT)
    for number, times in enumerate(launches.times):
        if is_lasting and cause.every:
            claimed = [member.affected for other in others for member in other.members[number]]
            yield (_throughout(cause.every[0], times, claimed),)
        else:
            yield ()


def _throughout(one: NamedCause, times: RankTimes, claimed: Sequence[Bools]) -> NamedCause:
    """The cause in all steps of a launch that are free of others."""
    affected = np.zeros((len(times.steps), len(times.ranks)), dtype=bool)
    affected[:, np.isin(times.ranks, one.ranks)] = True
    for taken in claimed:
        affected &= ~taken
    return replace(one, affected=affected)
