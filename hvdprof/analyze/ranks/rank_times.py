"""Own time of each rank in each phase, from each release to its next arrival.

All ranks are released from a synchronization together, so these times compare ranks without clock
error, and a slow backward pass is visible although waiting makes the steps of all ranks equal.
"""

from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.ranks.own_time import BEFORE_UPDATE, MIXED, own_times
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.arrays import Int64s

_ORDER = ("optimizer", "outside", "evaluation", "data", "forward", "backward", "before_update")
"""In which a rank passes through the phases, from the release of the step before."""


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Own times of a launch, ns; of each step ``per_step`` points, in their order.

    ``own_ns`` [points, ranks, phases] sums over ``phases`` to the time from the release of the
    point before to the arrival; ``phases`` is MIXED alone where the recording holds none.
    ``transfer_ns`` [points, ranks] is the time from the last arrival at the point before to that
    release, the median of the rank where it is not recorded. ``rows`` [steps] are those of the
    StepWork, ``steps`` the numbers of the steps in the script. A row is the mean of
    ``steps_per_row`` steps.
    """

    own_ns: Times
    transfer_ns: Times
    phases: tuple[str, ...]
    rows: Int64s
    steps: Int64s
    per_step: int = 1
    steps_per_row: int = 1

    @property
    def numbers(self) -> Int64s:
        """[steps] The places of the rows among all, in which a regular distance is looked for."""
        return np.asarray(self.steps // self.steps_per_row)

    def of_steps(self, times: Times) -> Times:
        """[steps, ...] The sums of [points, ...] over the points of each step."""
        if self.per_step == 1:
            return times
        return np.asarray(times.reshape(-1, self.per_step, *times.shape[1:]).sum(axis=1))


def rank_times(work: StepWork) -> RankTimes:
    """The own times of the steps whose previous step is known.

    Of a step with several synchronizations the phases are recorded once: they are laid one after
    the other, in the order in which a rank passes through them, and cut at its arrivals.

    Args:
        work: The steady steps of a launch.
    """
    spans = own_times(work)
    names = tuple(name for name in _ORDER if name in spans.phases) or (MIXED,)
    of_steps = [spans.phases[name] for name in names] if spans.phases else [spans.length]
    own = np.stack(of_steps, axis=2)
    points = work.points
    if points.per_step > 1:
        lengths = points.before.reshape(-1, points.per_step, len(work.ranks))[spans.rows]
        lengths[:, 0] += work.previous_after[spans.rows]
        own = _cut(own, lengths, _first(work, spans.rows, names))
    return RankTimes(
        own_ns=own,
        transfer_ns=_transfer(work, spans.rows),
        phases=names,
        rows=spans.rows,
        steps=spans.steps,
        per_step=points.per_step,
        steps_per_row=work.steps_per_row,
    )


def _first(work: StepWork, rows: Int64s, names: tuple[str, ...]) -> Times:
    """[steps, ranks, phases] Of each phase what lies right behind the release before."""
    first = np.zeros((len(rows), len(work.ranks), len(names)))
    if BEFORE_UPDATE in names:
        first[..., names.index(BEFORE_UPDATE)] = work.previous_behind_release[rows]
    return first


def _cut(own: Times, lengths: Times, first: Times) -> Times:
    """[points, ranks, phases] The phases [steps, ranks, phases] cut into [steps, points, ranks].

    What of them is ``first`` comes before all others.
    """
    num_steps, per_step, num_ranks = lengths.shape
    num_phases = own.shape[2]
    in_order = np.concatenate([first, own - first], axis=2).clip(0)
    phase_ends = np.cumsum(in_order, axis=2)[:, None]
    phase_starts = phase_ends - in_order[:, None]
    ends = np.cumsum(lengths, axis=1)[..., None]
    starts = ends - lengths[..., None]
    both = (np.minimum(ends, phase_ends) - np.maximum(starts, phase_starts)).clip(0)
    pieces = both[..., :num_phases] + both[..., num_phases:]
    # What no phase covers is outside all of them; a single phase has everything.
    outside = min(1, num_phases - 1)
    pieces[..., outside] += lengths - pieces.sum(axis=3)
    return np.asarray(pieces.reshape(num_steps * per_step, num_ranks, -1))


def _transfer(work: StepWork, rows: Int64s) -> Times:
    """[points, ranks] From the last arrival at the point before to the release from it."""
    points, per_step = work.points, work.points.per_step
    before = np.roll(points.tail, 1, axis=0)
    first = np.arange(0, len(before), per_step)
    before[first[~work.follows]] = np.nan
    before[0] = np.nan
    of_rank = np.median(points.at(-1, points.tail), axis=0)
    chosen = (rows[:, None] * per_step + np.arange(per_step)).ravel()
    own = before[chosen]
    return np.where(np.isnan(own), of_rank, own)
