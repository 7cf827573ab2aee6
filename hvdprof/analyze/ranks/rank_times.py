"""Own time of each rank in each phase, from each release to its next arrival, on its own clock.

All ranks are released from a synchronization together, so these times compare ranks without clock
error, and a slow backward pass is visible although waiting makes the steps of all ranks equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hvdprof.analyze.steps.step_work import StepWork, Times, medians_of_others
from hvdprof.model.arrays import Bools, Int64s

OUTSIDE_PHASE = "outside"
"""Time outside every phase."""

BEFORE_UPDATE = "before_update"
"""Time from the end of backward to the update."""

EVALUATION_PHASE = "evaluation"
"""Time outside every phase where the rank evaluates, which other ranks do not."""

MIXED = "mixed"

_ORDER = (
    "optimizer",
    OUTSIDE_PHASE,
    EVALUATION_PHASE,
    "data",
    "forward",
    "backward",
    BEFORE_UPDATE,
)
"""In which a rank passes through the phases, from the release of the step before."""


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Own times of a launch, ns; of each step ``per_step`` points, in their order.

    Attributes:
        own_ns: [points, ranks, phases] Sums over ``phases`` to the time from the release of the
            point before to the arrival.
        transfer_ns: [points, ranks] From the last arrival at the point before to that release.
        phases: MIXED alone where the recording holds none.
        ranks: [ranks] Their numbers.
        steps: [steps] Their numbers in the script, as in the StepWork.
        follows: [steps] Whether the step before counts, too.
        step_ns: The mean step time of the launch.
        per_step: Points of each step.
        steps_per_row: A row is the mean of so many steps.
        core_losses: By rank the share of its time lost to waits for a core (``other_load``).
        late_batches: By rank whether its batches are late (``queues``), where that was seen.
    """

    own_ns: Times
    transfer_ns: Times
    phases: tuple[str, ...]
    ranks: Int64s
    steps: Int64s
    follows: Bools
    step_ns: float
    per_step: int = 1
    steps_per_row: int = 1
    core_losses: Mapping[int, float] = field(default_factory=dict)
    late_batches: Mapping[int, bool] = field(default_factory=dict)

    @property
    def numbers(self) -> Int64s:
        """[steps] The places of the rows among all, in which a regular distance is looked for."""
        return np.asarray(self.steps // self.steps_per_row)

    @property
    def has_phases(self) -> bool:
        """Whether the recording holds phases."""
        return self.phases != (MIXED,)

    @property
    def have_batches(self) -> bool:
        """Whether at least half of the ranks are known to have batches ready."""
        return 2 * list(self.late_batches.values()).count(False) >= len(self.ranks)

    @property
    def length(self) -> Times:
        """[steps, ranks] Own time in each step, ns."""
        return self.of_steps(self.own_ns.sum(axis=2))

    @property
    def lateness(self) -> Times:
        """[steps, ranks] Own time less the median of the other ranks, summed over the points, ns.

        The ranks that are late at one point are no measure at another. 0 of one rank.
        """
        return self.of_steps(_lateness(self.own_ns.sum(axis=2)))

    @property
    def job_ns(self) -> float:
        """What all steps take: the sum over the points of the largest transfer and own time."""
        return float((self.own_ns.sum(axis=2) + self.transfer_ns).max(axis=1).sum())

    def of_steps(self, times: Times) -> Times:
        """[steps, ...] The sums of [points, ...] over the points of each step."""
        if self.per_step == 1:
            return times
        return np.asarray(times.reshape(-1, self.per_step, *times.shape[1:]).sum(axis=1))

    def at(self, place: int, times: Times) -> Times:
        """[steps, ...] Of [points, ...] those of one place of each step."""
        return times[place :: self.per_step]

    def counted(self, first: int, last: int) -> Bools:
        """[steps] Whether a step lies from ``first`` to ``last``, both included."""
        return np.asarray((self.steps >= first) & (self.steps <= last))

    def between(self, first: int, last: int) -> "RankTimes":
        """The times of these steps alone, of which there has to be one."""
        chosen = self.counted(first, last)
        points = np.repeat(chosen, self.per_step)
        part = replace(
            self,
            own_ns=self.own_ns[points],
            transfer_ns=self.transfer_ns[points],
            steps=self.steps[chosen],
            follows=self.follows[chosen],
        )
        ratio = part.job_ns / self.job_ns * len(self.steps) / len(part.steps)
        return replace(part, step_ns=self.step_ns * ratio)


def rank_times(work: StepWork) -> RankTimes:
    """The own times of the steady steps.

    Behind a step that does not count, a run of steps begins with what lies between the last arrival
    of that run and its end: so all that the steps take is here once, and nothing else.

    Of a step with several synchronizations the phases are recorded once: they are laid one after
    the other, in the order in which a rank passes through them, and cut at its arrivals.

    Args:
        work: The steady steps of a launch.
    """
    before = _of_previous(work)
    recorded = _phases(work, before)
    names = tuple(name for name in _ORDER if name in recorded)
    own = np.stack([recorded[name] for name in names or recorded], axis=2)
    points = work.points
    if points.per_step > 1:
        lengths = points.before.reshape(-1, points.per_step, len(work.ranks)).copy()
        lengths[:, 0] += before.after
        first = np.zeros_like(own)
        if BEFORE_UPDATE in names:
            first[..., names.index(BEFORE_UPDATE)] = before.behind_release
        own = _cut(own, lengths, first)
    transfer = points.tail.reshape(-1, points.per_step, len(work.ranks))
    transfer = np.concatenate([before.tail[:, None], transfer[:, :-1]], axis=1)
    return RankTimes(
        own_ns=own,
        transfer_ns=transfer.reshape(-1, len(work.ranks)),
        phases=names or (MIXED,),
        ranks=work.ranks,
        steps=work.steps,
        follows=work.follows,
        step_ns=float(work.step_times.mean()),
        per_step=points.per_step,
        steps_per_row=work.steps_per_row,
    )


@dataclass(frozen=True, slots=True)
class _Previous:
    """Behind the last arrival of the step before, [steps, ranks], ns."""

    tail: Times
    after: Times
    optimizer: Times
    behind_release: Times


def _of_previous(work: StepWork) -> _Previous:
    starts = ~work.follows
    starts[0] = True
    row = np.arange(len(starts)) - 1
    # The last row of the run of steps that begins there.
    row[starts] = np.flatnonzero(np.append(starts[1:], True))
    points = work.points
    return _Previous(
        tail=points.at(-1, points.tail)[row],
        after=work.own_after_release[row],
        optimizer=_behind(work.parts["optimizer"], work)[row],
        behind_release=work.behind_release[row],
    )


def _behind(optimizer: Times, work: StepWork) -> Times:
    """[steps, ranks] The part of the update that lies behind the release."""
    return np.minimum(optimizer, work.own_after_release)


@dataclass(frozen=True, slots=True)
class RankDelay:
    """A rank, by its column, takes so much longer in a phase of every step, ns.

    The phase is one of the launch, or another one, which it has no time in.
    """

    place: int
    phase: str
    delay_ns: float


def replayed_without(times: RankTimes, delays: Sequence[RankDelay]) -> RankTimes:
    """The launch without these delays: own times alone change, and the step time by what they cost.

    No step loses more of a phase than it has. With several points per step it loses the delay where
    the rank is late in that phase, or in proportion to its time there if it is late nowhere.

    Args:
        times: The own times of the launch.
        delays: At most one for each rank and phase.
    """
    own = times.own_ns.copy()
    for one in delays:
        if one.phase in times.phases:
            phase = times.phases.index(one.phase)
            at_points = np.tile(_shares_of_points(times, one.place, phase), len(times.steps))
            had = own[:, one.place, phase]
            own[:, one.place, phase] = had - np.minimum(one.delay_ns * at_points, had)
    changed = replace(times, own_ns=own)
    return replace(changed, step_ns=times.step_ns * changed.job_ns / times.job_ns)


def _shares_of_points(times: RankTimes, place: int, phase: int) -> Times:
    """[points of a step] Where the rank is late in the phase; they sum to 1, or all are 0."""
    if times.per_step == 1:
        return np.ones(1)
    own = times.own_ns[..., phase]
    for candidate in (_lateness(own), own):
        of_points = candidate[:, place].reshape(-1, times.per_step).mean(axis=0).clip(0)
        if of_points.any():
            return np.asarray(of_points / of_points.sum())
    return np.zeros(times.per_step)


def _lateness(times: Times) -> Times:
    """[points, ranks] Each rank's time less the median of the other ranks at the same point."""
    return times - medians_of_others(times) if times.shape[1] > 1 else np.zeros_like(times)


def _phases(work: StepWork, before: _Previous) -> Mapping[str, Times]:
    """[steps, ranks] From each release to the next arrival, by phase; MIXED alone without any."""
    length = before.after + work.own_before_sync
    if not work.own.any():
        return {MIXED: length}
    found = {name: work.parts[name] for name in ("data", "forward", "backward")}
    # Both lie behind the release where gradients are reduced by then, else before the arrival.
    optimizer, update = work.parts["optimizer"], work.parts["before_update"]
    found["optimizer"] = optimizer - _behind(optimizer, work) + before.optimizer
    found[BEFORE_UPDATE] = update - work.behind_release + before.behind_release
    outside = length - sum(found.values())
    found[OUTSIDE_PHASE] = np.where(work.evaluates, 0.0, outside)
    if work.evaluates.any():
        found[EVALUATION_PHASE] = np.where(work.evaluates, outside, 0.0)
    return found


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
