"""The ranks and pauses that are named in a launch, with phase and pattern.

1.  Where the input queues of most ranks run empty, what they wait for there is shared.
2.  Events: steps that stand out by themselves (``events``). They are taken out.
3.  Ranks that are later on average in what is left (``levels``).
4.  Of each: the phase with most of its excess, and a word for its shape (``shapes``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.ranks.account import costs_of, credit, shared
from hvdprof.analyze.ranks.chances import chance_of_level, chances_of_level
from hvdprof.analyze.ranks.events import CHANCE_OF_OWNER, MOST_OF_ALL, Series, pauses, rank_events
from hvdprof.analyze.ranks.named_cause import (
    FALSE_ALARMS,
    FOR_A_WHILE,
    FROM_STEP,
    IRREGULAR,
    LASTING,
    LEAST_STEPS_OF_CAUSE,
    PAUSE,
    PERIODIC,
    SMALLEST_SHARE,
    STRAGGLER,
    Delay,
    NamedCause,
    run_starts,
    saving,
)
from hvdprof.analyze.ranks.queues import are_late, without_empty_queues
from hvdprof.analyze.ranks.rank_times import MIXED, RankTimes
from hvdprof.analyze.ranks.shapes import OwnTimes, described, phase_of
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.other_load import LEAST_EXPLAINED
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools
from hvdprof.model.causes import SHARED_PHASES

MOST_CAUSES = 5

SAME_PERIOD = 0.1
"""Largest difference of the periods, or of the first steps, of ranks that are alike."""

LONGER = 0.25
"""Share of a pause of all ranks by which one of them stops longer, from which that is named."""

_STEPS_APART = {STRAGGLER: 1, PAUSE: 2}

CERTAIN_BESIDE_LOAD = 1e-6
"""Chance below which a rank is named although waits for a core explain it: of 38 clean launches,
most of them beside other load, 6 had a rank with a chance of 0.05 to 0.2 %."""


@dataclass(frozen=True, slots=True)
class _Found:
    delay: Delay
    phase: str
    phase_share: float
    is_level: bool = False


def named_causes(times: RankTimes) -> tuple[NamedCause, ...]:
    """The significant delays of a launch, largest first.

    They do not overlap in ``affected``, but for a rank that stops far longer than all in a pause.
    None is explained by waits for a core, but of a rank that always has them or is later by far.
    Empty below 8 steps. One rank has pauses alone: no other one shows what is usual.
    """
    if len(times.steps) < LEAST_STEPS_OF_CAUSE:
        return ()
    step_ns = times.step_ns
    ready = without_empty_queues(times)
    series = Series(step_ns, times.numbers)
    common = shared(ready.own_ns, ready.per_step)
    excess = times.of_steps(ready.own_ns - common[:, None, :])
    of_all = times.of_steps(common)
    total = excess.sum(axis=2)
    delays = pauses(of_all.sum(axis=1), total.shape[1], series)
    if total.shape[1] > 1:
        events, rest = rank_events(excess, series)
        delays += events + late_ranks(rest, step_ns)
    own = OwnTimes(times.of_steps(times.own_ns), times.phases)
    found = [
        _described(_apart_from(one, delays), one, excess, of_all, own, series) for one in delays
    ]
    apart = [
        replace(one, is_level=not (one.delay.is_event or _is_of_others(one, excess, of_all, times)))
        for one in _apart(found, total, of_all.sum(axis=1))
    ]
    judged = [_judged(one, excess) for one in _merged(apart)]
    of_others = [_is_of_others(one, excess, of_all, times) for one in judged]
    # Where another rank is late for lack of a core, so may one be whose events chance can give.
    most, least_ns = CHANCE_OF_OWNER if any(of_others) else 1.0, SMALLEST_SHARE * step_ns / 2
    merged = [
        one
        for one, is_of_others in zip(judged, of_others, strict=True)
        if not is_of_others
        and one.delay.chance <= most
        and (one.delay.is_event or are_late(times, one.delay.places))
        and (one.delay.pattern in LASTING or _cost(one.delay, total, of_all) >= least_ns)
    ]
    merged.sort(key=lambda one: -_cost(one.delay, total, of_all))
    return tuple(_named(times, one) for one in merged[:MOST_CAUSES])


def _is_of_others(one: _Found, excess: Times, of_all: Times, times: RankTimes) -> bool:
    """Whether waits for a core that may pass explain a delay of a phase where all ranks compute."""
    delay, places = one.delay, list(one.delay.places)
    of_all_ranks = delay.kind != STRAGGLER or len(places) == len(times.ranks)
    if of_all_ranks or delay.pattern == PERIODIC or one.phase not in (*SHARED_PHASES, MIXED):
        return False
    lost = min(times.core_losses.get(rank, 0.0) for rank in times.ranks[places].tolist())
    if lost < LEAST_EXPLAINED * _cost(delay, excess.sum(axis=2), of_all) / times.step_ns:
        return False
    return chance_of_level(excess, places, CERTAIN_BESIDE_LOAD) > CERTAIN_BESIDE_LOAD


def _judged(one: _Found, excess: Times) -> _Found:
    """Of what lasts, with the chance of the whole claim: that of its events, or of its level."""
    chance = one.delay.chance
    if one.delay.pattern in LASTING and chance > FALSE_ALARMS:
        chance = min(chance, chance_of_level(excess, one.delay.places, FALSE_ALARMS))
    return replace(one, delay=replace(one.delay, chance=chance))


def _cost(delay: Delay, total: Times, of_all: Times) -> float:
    """What the launch saves per step without it, ns."""
    if delay.kind != PAUSE:
        return saving(total, delay)
    common = of_all.sum(axis=1)[:, None]
    of_one = replace(delay, places=(0,), affected=delay.affected[:, :1])
    return saving(common - np.median(common), of_one)


def _apart_from(delay: Delay, delays: Sequence[Delay]) -> Bools:
    """[steps] Where no event of other ranks acts, which says nothing of a rank that is slower."""
    others = [one.affected.any(axis=1) for one in delays if one.is_event and one is not delay]
    busy: Bools = np.logical_or.reduce(others or [np.zeros(len(delay.affected), dtype=bool)])
    return ~busy


def _described(
    free: Bools,
    delay: Delay,
    excess: Times,
    of_all: Times,
    own: OwnTimes,
    series: Series,
) -> _Found:
    """The delay with its phase, and with the pattern that it has in this phase."""
    if delay.kind == PAUSE:
        of_pause = of_all - np.median(of_all, axis=0)
        by_phase = of_pause[delay.affected.any(axis=1)].sum(axis=0)
        whole = described(delay, excess.sum(axis=2), series)
        return _Found(whole, *phase_of(own.names, by_phase))
    phase, share = own.phase(delay, free)
    late = excess.sum(axis=2) if phase == MIXED else excess[..., own.names.index(phase)]
    whole = described(delay, late, series)
    if delay.is_event and whole.pattern in LASTING:
        # The largest steps of a slow rank are no sample of its phases.
        phase, share = own.phase(whole, free)
    return _Found(whole, phase, share)


def _apart(found: list[_Found], excess: Times, common: Times) -> list[_Found]:
    """The delays without overlap: events go before what lasts, then the earlier one.

    Events of a rank stay in a pause of all ranks where it stops longer by LONGER of the pause.
    """
    is_longer = excess >= LONGER * (common - np.median(common))[:, None]
    apart: list[_Found] = []
    claimed = paused = np.zeros(excess.shape, dtype=bool)
    for one in sorted(found, key=lambda one: one.delay.pattern in LASTING):
        delay = one.delay
        is_owned = delay.is_event and len(delay.places) < excess.shape[1]
        affected = delay.affected & ~claimed & ~(paused & ~is_longer if is_owned else paused)
        if delay.kind == PAUSE:
            paused = paused | affected
        else:
            claimed = claimed | affected
        if affected.any():
            apart.append(replace(one, delay=replace(delay, affected=affected)))
    return apart


def _merged(found: Iterable[_Found]) -> list[_Found]:
    """One for the ranks of the same kind, pattern, phase, and period or first step."""
    groups: list[list[_Found]] = []
    for cause in found:
        group = next((g for g in groups if all(_are_alike(one, cause) for one in g)), None)
        if group is None:
            groups.append([cause])
        else:
            group.append(cause)
    return [merged for group in groups if (merged := _as_one(group)) is not None]


def _as_one(group: list[_Found]) -> _Found | None:
    """Alike events of more than half of the ranks are any rank's; in many steps, jitter."""
    delays = [cause.delay for cause in group]
    places = tuple(sorted({place for delay in delays for place in delay.places}))
    affected = np.logical_or.reduce([delay.affected for delay in delays])
    weights = [float(delay.affected.sum()) for delay in delays]
    share = float(np.average([cause.phase_share for cause in group], weights=weights))
    first = next((delay for delay in delays if delay.pattern in LASTING), delays[0])
    chance = max(delay.chance for delay in delays)
    whole = replace(first, places=places, affected=affected, chance=chance)
    if len(group) > 1 and whole.kind == STRAGGLER and 2 * len(places) > affected.shape[1]:
        if affected.any(axis=1).mean() > MOST_OF_ALL:
            return None
        everyone = tuple(range(affected.shape[1]))
        whole = replace(whole, places=everyone, pattern=IRREGULAR, period=NAN)
    return _Found(whole, group[0].phase, share)


def _are_alike(one: _Found, other: _Found) -> bool:
    first, second = one.delay, other.delay
    if (first.kind, one.phase) != (second.kind, other.phase):
        return False
    # Events of any rank say nothing of a rank that is later in what they leave.
    if one.is_level != other.is_level and first.places != second.places:
        return False
    patterns = {first.pattern, second.pattern}
    if first.places == second.places and IRREGULAR in patterns and patterns & set(LASTING):
        return True
    if len(patterns) > 1:
        return False
    if first.pattern == PERIODIC:
        return abs(first.period - second.period) <= SAME_PERIOD * first.period
    begins = [int(delay.affected.any(axis=1).argmax()) for delay in (first, second)]
    is_bounded = first.pattern in (FROM_STEP, FOR_A_WHILE)
    return not is_bounded or abs(begins[0] - begins[1]) <= SAME_PERIOD * len(first.affected)


def _named(times: RankTimes, found: _Found) -> NamedCause:
    delay, in_step = found.delay, np.asarray(found.delay.affected.any(axis=1))
    events = in_step if delay.pattern in LASTING else run_starts(in_step, _STEPS_APART[delay.kind])
    return NamedCause(
        kind=delay.kind,
        ranks=tuple(int(rank) for rank in times.ranks[list(delay.places)]),
        phase=found.phase,
        phase_share=found.phase_share,
        pattern=delay.pattern,
        period_steps=delay.period * times.steps_per_row,
        num_events=int(events.sum()),
        first_step=int(times.steps[in_step.argmax()]),
        last_step=int(times.steps[np.flatnonzero(in_step)[-1]]),
        last_delay_ns=delay.last_ns,
        chance=delay.chance,
        affected=delay.affected,
    )


MOST_SEARCHES = 4

ALIKE = 0.7
"""Share of the mean lateness of several ranks from which another one is late with them."""


def late_ranks(excess: Times, step_ns: float) -> list[Delay]:
    """The ranks whose excess costs 5 % of the step and is beyond chance, each as a delay.

    Ranks that are as late as two or more of them belong to them: a permutation of several slow
    ranks gives any of them as much.

    Judged is the credit of a rank against the others, or its mean excess where that is more: among
    many ranks with jitter a slow one has a small share of the cost.

    Args:
        excess: [steps, ranks, phases] without the events.
        step_ns: The mean step time.
    """
    rest = excess.copy()
    num_steps, num_ranks, _ = rest.shape
    found: list[Delay] = []
    for _ in range(MOST_SEARCHES):
        total = rest.sum(axis=2)
        costs = costs_of(rest).sum(axis=2)
        size = np.maximum(credit(total).mean(axis=0), total.mean(axis=0)) / step_ns
        # Ranks that cost nothing together are late beside another one alone.
        if costs.sum() < SMALLEST_SHARE * step_ns * num_steps:
            break
        wanted = size >= SMALLEST_SHARE
        chances = chances_of_level(total, costs, FALSE_ALARMS, wanted)
        sure = np.flatnonzero(wanted & (chances <= FALSE_ALARMS))
        if not len(sure):
            break
        if len(sure) > 1:
            late = total.mean(axis=0)
            sure = np.flatnonzero(wanted & (late >= ALIKE * late[sure].mean()))
        for place in sure:
            affected = np.tile(np.arange(num_ranks) == place, (num_steps, 1))
            chance = min(float(chances[place]), FALSE_ALARMS)
            found.append(Delay(STRAGGLER, (int(place),), affected, is_event=False, chance=chance))
            rest[:, place] = np.where((total[:, place] > 0)[:, None], 0.0, rest[:, place])
    return found
