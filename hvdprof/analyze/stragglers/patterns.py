"""What happened in a launch: significant delays of ranks, grouped by pattern and phase.

1.  Ranks that are slower than the others, throughout or from a step on (``slow_ranks``).
2.  Sparse delays, the most expensive first: pauses of all ranks, stalls of a rank or of ranks that
    stall together, stalls of any rank (``stalls``).
3.  Ranks that lead all others in what is left (``leads``).

What is found is taken out of the times before the next search, so that nothing is named twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.analyze.stragglers.delay import (
    LEAST_STEPS_OF_CAUSE,
    SLOW,
    SMALLEST_SHARE,
    STEPS_APART,
    Delay,
    run_starts,
    usual,
)
from hvdprof.analyze.stragglers.delay_phase import split_by_phase
from hvdprof.analyze.stragglers.input_bound import without_stalls_of_most
from hvdprof.analyze.stragglers.leads import leading_ranks
from hvdprof.analyze.stragglers.named_cause import (
    FROM_STEP,
    IRREGULAR,
    PERIODIC,
    STRAGGLER,
    NamedCause,
)
from hvdprof.analyze.stragglers.own_time import OwnTimes, lateness, own_times
from hvdprof.analyze.stragglers.slow_ranks import slow_ranks
from hvdprof.analyze.stragglers.stalls import MOST_STEPS, any_rank_stalls, pauses, rank_stalls
from hvdprof.model.arrays import Bools, Int64s

MOST_CAUSES, MOST_SEARCHES = 5, 8

NEARLY = 0.8
"""Share of the largest cost from which a periodic delay goes before, and stalls of one rank."""

SAME_PERIOD = 0.1
"""Largest difference of the periods, or of the first steps, of ranks that are alike."""


@dataclass(frozen=True, slots=True)
class _Found:
    delay: Delay
    phase: str
    phase_share: float


def named_causes(work: StepWork) -> tuple[NamedCause, ...]:
    """The significant delays of a launch, largest first; they never overlap in ``affected``.

    Empty where nothing is significant, and below 9 steps. One rank has pauses alone, since no other
    rank shows what is usual.
    """
    spans = own_times(work)
    if len(spans.length) < LEAST_STEPS_OF_CAUSE:
        return ()
    step_ns = float(work.step_times.mean())
    spans = without_stalls_of_most(spans, step_ns)
    delays = _apart(_search(spans, step_ns))
    found = sorted(
        _merged(_with_phases(spans, delays)),
        key=lambda cause: -saving(spans.length, cause.delay),
    )
    return tuple(_named(work, spans, cause) for cause in found[:MOST_CAUSES])


def _search(spans: OwnTimes, step_ns: float) -> list[Delay]:
    has_others = spans.length.shape[1] > 1
    delays = list(slow_ranks(spans.length, step_ns)) if has_others else []
    slow = {place for delay in delays for place in delay.places}
    rest = with_slow = spans.length
    for delay in delays:
        rest = without(rest, delay)
    for _ in range(MOST_SEARCHES):
        found = _sparse_delay(rest, step_ns, spans.numbers)
        if found is None:
            break
        # Stalls that cost too little to be named are no lead of their rank either.
        if saving(rest, found) >= SMALLEST_SHARE * step_ns:
            delays.append(found)
        rest, with_slow = without(rest, found), without(with_slow, found)
    leads = leading_ranks(rest, step_ns, spans.numbers) if has_others else ()
    # A slow rank that varies is below the others in some steps once its mean excess is taken out:
    # then another one leads in what is left, and never where the slow one is as it was.
    return delays + [
        lead
        for lead in leads
        if not slow & set(lead.places) and saving(with_slow, lead) >= SMALLEST_SHARE * step_ns
    ]


def _sparse_delay(rest: Times, step_ns: float, steps: Int64s) -> Delay | None:
    """The sparse delay that costs most; stalls of any rank where no other one costs enough."""
    found = list(pauses(rest, step_ns, steps))
    if rest.shape[1] < 2:
        return _most_expensive(rest, found)
    largest = _most_expensive(rest, [*found, *rank_stalls(rest, step_ns, steps)])
    if largest is not None and saving(rest, largest) >= SMALLEST_SHARE * step_ns:
        return largest
    found = list(any_rank_stalls(rest, step_ns, steps))
    of_any = _most_expensive(rest, found)
    if of_any is None:
        return largest
    of_one = _most_expensive(rest, [delay for delay in found if len(delay.places) == 1])
    is_nearly_all = of_one is not None and saving(rest, of_one) >= NEARLY * saving(rest, of_any)
    return of_one if is_nearly_all else of_any


def _most_expensive(rest: Times, delays: list[Delay]) -> Delay | None:
    """The delay that costs most; a periodic one that costs nearly as much goes before."""
    costs = [saving(rest, delay) for delay in delays]
    chosen = [
        (one.pattern == PERIODIC, cost, -number)
        for number, (one, cost) in enumerate(zip(delays, costs, strict=True))
        if cost > 0 and cost >= NEARLY * max(costs)
    ]
    return delays[-max(chosen)[2]] if chosen else None


def without(length: Times, delay: Delay) -> Times:
    """The times without a delay: less its mean excess, or as usual where it is sparse."""
    columns = list(delay.places)
    affected, own = delay.affected[:, columns], length[:, columns]
    changed = length.copy()
    if delay.pattern in SLOW:
        excess = (lateness(length)[:, columns] * affected).sum(axis=0) / affected.sum(axis=0)
        changed[:, columns] = own - affected * excess
    else:
        changed[:, columns] = np.where(affected, np.minimum(own, usual(own, affected)), own)
    return changed


def saving(length: Times, delay: Delay) -> float:
    """What the launch saves per step without a delay, ns, with all ranks released together."""
    return float((length.max(axis=1) - without(length, delay).max(axis=1)).mean())


def _apart(delays: list[Delay]) -> list[Delay]:
    """The delays without overlap: a sparse one goes before a slow rank, then the earlier one."""
    apart: list[Delay] = []
    claimed: Bools | None = None
    for delay in sorted(delays, key=lambda delay: delay.pattern in SLOW):
        affected = delay.affected if claimed is None else delay.affected & ~claimed
        claimed = affected if claimed is None else claimed | affected
        if affected.any():
            apart.append(replace(delay, affected=affected))
    return apart


def _with_phases(spans: OwnTimes, delays: list[Delay]) -> Iterator[_Found]:
    slow = {place for delay in delays if delay.pattern in SLOW for place in delay.places}
    sparse = [delay.affected.any(axis=1) for delay in delays if delay.pattern not in SLOW]
    stalls = np.logical_or.reduce(sparse or [np.zeros(len(spans.length), dtype=bool)])
    for whole in delays:
        others = sorted(slow - set(whole.places))
        for part in split_by_phase(spans.phases, whole, others, stalls):
            own = np.isin(np.arange(whole.affected.shape[1]), part.places)
            delay = replace(whole, places=part.places, affected=whole.affected & own)
            yield _Found(delay, part.phase, part.share)


def _merged(found: Iterable[_Found]) -> list[_Found]:
    """One for the ranks of the same kind, pattern, phase, and period or first step."""
    groups: list[list[_Found]] = []
    for cause in found:
        group = next((group for group in groups if _are_alike(group[0], cause)), None)
        if group is None:
            groups.append([cause])
        else:
            group.append(cause)
    return [merged for group in groups if (merged := _as_one(group)) is not None]


def _as_one(group: list[_Found]) -> _Found | None:
    """Alike stalls of more than half of the ranks are any rank's; in many steps, jitter."""
    delays = [cause.delay for cause in group]
    places = sorted({place for delay in delays for place in delay.places})
    affected = np.logical_or.reduce([delay.affected for delay in delays])
    weights = [float(delay.affected.sum()) for delay in delays]
    share = float(np.average([cause.phase_share for cause in group], weights=weights))
    first = next((delay for delay in delays if delay.pattern in SLOW), delays[0])
    whole = replace(first, places=tuple(places), affected=affected)
    if len(group) > 1 and whole.kind == STRAGGLER and 2 * len(places) > affected.shape[1]:
        if affected.any(axis=1).mean() > MOST_STEPS:
            return None
        whole = replace(
            whole, places=tuple(range(affected.shape[1])), pattern=IRREGULAR, period=NAN
        )
    return _Found(whole, group[0].phase, share)


def _are_alike(one: _Found, other: _Found) -> bool:
    first, second = one.delay, other.delay
    if (first.kind, one.phase) != (second.kind, other.phase):
        return False
    patterns = {first.pattern, second.pattern}
    if first.places == second.places and IRREGULAR in patterns and patterns & set(SLOW):
        return True
    if len(patterns) > 1:
        return False
    num_steps = len(first.affected)
    if first.pattern == PERIODIC:
        return abs(first.period - second.period) <= SAME_PERIOD * first.period
    begins = [int(delay.affected.any(axis=1).argmax()) for delay in (first, second)]
    return first.pattern != FROM_STEP or abs(begins[0] - begins[1]) <= SAME_PERIOD * num_steps


def _named(work: StepWork, spans: OwnTimes, found: _Found) -> NamedCause:
    delay = found.delay
    affected = np.zeros(work.own_before_sync.shape, dtype=bool)
    affected[spans.rows] = delay.affected
    in_step: Bools = np.asarray(delay.affected.any(axis=1))
    events = in_step if delay.pattern in SLOW else run_starts(in_step, STEPS_APART[delay.kind])
    return NamedCause(
        kind=delay.kind,
        ranks=tuple(int(rank) for rank in work.ranks[list(delay.places)]),
        phase=found.phase,
        phase_share=found.phase_share,
        pattern=delay.pattern,
        period_steps=delay.period * spans.steps_per_row,
        num_events=int(events.sum()),
        first_step=int(spans.steps[in_step.argmax()]),
        affected=affected,
    )
