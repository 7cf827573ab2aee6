"""What the delay of one rank in one phase costs a launch, and the launch without it."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.causes.delays import OPTIMIZER, later_rows, rows_of
from hvdprof.analyze.causes.shapley import shapley
from hvdprof.analyze.ranks.own_time import (
    BEFORE_UPDATE,
    MIXED,
    OUTSIDE_PHASE,
    lateness,
)
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.analyze.steps.sync_points import SyncPoints


@dataclass(frozen=True, slots=True)
class RankDelay:
    """A rank, by its column, takes so much longer in a phase of every step.

    ``delay_ns`` is that of every step, or of each [steps]; where it is negative, the rank takes
    less time there. ``phase`` is one of ``OWN_PARTS``, OUTSIDE_PHASE (outside every phase), or
    MIXED where the steps have no phases.
    """

    place: int
    phase: str
    delay_ns: float | Times


def phase_times(work: StepWork) -> dict[str, Times]:
    """[steps, ranks] Own time in each phase and outside; MIXED alone without phases."""
    if not work.own.any():
        return {MIXED: work.own_before_sync + work.own_after_release}
    own = {name: times for name, times in work.parts.items() if name != "outside"}
    return {**own, OUTSIDE_PHASE: work.parts["outside"]}


def without_delays(work: StepWork, delays: Sequence[RankDelay]) -> StepWork:
    """The steps without these delays: own times alone change, and not the clocks.

    No step loses more of a phase than it has.

    Args:
        work: The steady steps of a launch.
        delays: At most one for each rank and phase.
    """
    parts = {name: times.copy() for name, times in work.parts.items()}
    before, after = work.own_before_sync.copy(), work.own_after_release.copy()
    previous_after, previous_optimizer = work.previous_after.copy(), work.previous_optimizer.copy()
    behind_release, previous_behind = (
        work.behind_release.copy(),
        work.previous_behind_release.copy(),
    )
    points = work.points
    before_points, after_points = points.before.copy(), points.after.copy()
    for delay in delays:
        column = (slice(None), delay.place)
        taken = _taken(delay, parts, before)
        if delay.phase != MIXED:
            name = "outside" if delay.phase == OUTSIDE_PHASE else delay.phase
            parts[name][column] -= taken
        of_previous = _of_previous_step(delay, work)
        if delay.phase == OPTIMIZER:
            behind, previous = taken, np.minimum(of_previous, previous_optimizer[column])
            previous_optimizer[column] -= previous
        elif delay.phase == BEFORE_UPDATE:
            behind = np.minimum(taken, behind_release[column])
            previous = np.minimum(of_previous, previous_behind[column])
            behind_release[column] -= behind
            previous_behind[column] -= previous
        else:
            behind, previous = np.zeros_like(taken), np.zeros_like(taken)
        # What runs after the release is in the window of the next step.
        after[column] -= behind
        after_points[points.per_step - 1 :: points.per_step, delay.place] -= behind
        previous_after[column] -= previous
        of_points = np.outer(taken - behind, _shares_of_points(points, delay)).ravel()
        of_points = np.minimum(of_points, before_points[column])
        before_points[column] -= of_points
        before[column] -= points.of_steps(of_points)
    changed = dataclasses.replace(points, before=before_points, after=after_points)
    return dataclasses.replace(
        work,
        own_before_sync=before,
        own_after_release=after,
        parts=parts,
        previous_after=previous_after,
        previous_optimizer=previous_optimizer,
        behind_release=behind_release,
        previous_behind_release=previous_behind,
        syncs=None if work.syncs is None else changed,
    )


def own_times_of(work: StepWork) -> Times:
    """[ranks, rows] The windows up to all synchronizations (``delays.Rows``), ns."""
    rows = [rows_of(work), *later_rows(work)]
    return np.concatenate([row.window for row in rows], axis=1)


def delay_costs(work: StepWork, delays: Sequence[RankDelay]) -> list[float]:
    """The cost of each delay: what the replayed step loses without it, ns per step.

    Several overlap: each has its Shapley value, and the sum is what the step loses without all.

    Args:
        work: The steady steps of a launch.
        delays: The delays, at most ``shapley.MOST_PLAYERS``.
    """
    whole = own_times_of(work)
    players = [whole - own_times_of(without_delays(work, [delay])) for delay in delays]
    base = whole - np.sum(players, axis=0) if players else whole
    first = [rows_of(work), *later_rows(work)]
    base = base + np.concatenate([rows.begin + rows.tail for rows in first], axis=1)
    return [value / len(work.steps) for value in shapley(base, players).values]


def _taken(delay: RankDelay, parts: dict[str, Times], before: Times) -> Times:
    if delay.phase == MIXED:
        own = before
    else:
        own = parts["outside" if delay.phase == OUTSIDE_PHASE else delay.phase]
    return np.minimum(delay.delay_ns, own[:, delay.place])


def _of_previous_step(delay: RankDelay, work: StepWork) -> Times:
    """[steps] The delay in the step before; its mean where that is no row."""
    of_steps = np.broadcast_to(delay.delay_ns, len(work.steps))
    return np.where(work.follows, np.roll(of_steps, 1), of_steps.mean())


def _shares_of_points(points: SyncPoints, delay: RankDelay) -> Times:
    """[points of a step] Where in the step the rank loses its delay: where it is late, too.

    A rank that is late at none of them loses it in proportion to its own time.
    """
    if points.per_step == 1:
        return np.ones(1)
    late = lateness(points.before)[:, delay.place]
    own = np.array([points.at(place, late).mean() for place in range(points.per_step)]).clip(0)
    if not own.any():
        times = points.before[:, delay.place]
        own = np.array([points.at(place, times).mean() for place in range(points.per_step)])
    return np.asarray(own / own.sum()) if own.any() else np.full(len(own), 1 / len(own))
