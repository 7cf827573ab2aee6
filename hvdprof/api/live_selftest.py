"""A rank of a real job is slow for a while: when a watcher names it, and when it clears it."""

import time
from collections.abc import Sequence
from dataclasses import replace

from hvdprof.api.live import Event, watching
from hvdprof.api.measurement import Measurement
from hvdprof.api.options import MODEL_S, NUM_WARMUP
from hvdprof.errors import SweepIncompleteError
from hvdprof.live.rank_feed import RankFeed, RankWindow
from hvdprof.model.results.selftest import (
    CaseOutcome,
    CaseResult,
    LiveTimes,
    NamedRank,
    SelftestCase,
)
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.recording.stall_format import EventKind, EventState

AMOUNT_MS = 24.0
FIRST, NUM_SLOW, NUM_AFTER = 200, 480, 330
"""Steps before the rank is slow, while it is, and afterwards."""

NUM_LIVE_STEPS = FIRST + NUM_SLOW + NUM_AFTER
LIVE_S = 12.0 + 1.1 * NUM_LIVE_STEPS * MODEL_S + NUM_SLOW * AMOUNT_MS / 1e3
"""Seconds of the launch, for the estimate."""

_PHASE = "forward"


def live_case(num_ranks: int) -> SelftestCase:
    """The launch of a live self-test: its last rank is slow for some hundred steps."""
    rank, last = num_ranks - 1, FIRST + NUM_SLOW - 1
    return SelftestCase(
        name=f"{AMOUNT_MS:g} ms in {_PHASE} for {NUM_SLOW} steps",
        fault=f"sleep:phase={_PHASE},rank={rank},amount={AMOUNT_MS:g}ms,first={FIRST},last={last}",
        rank=rank,
        phase=_PHASE,
        amount_ns=AMOUNT_MS * 1e6,
    )


def live_result(case: SelftestCase, planned: Measurement) -> CaseResult:
    """Run the launch beside a watcher, and hold what that reports against what was injected.

    Raises:
        HvdprofError: The launch failed.
    """
    seen: list[tuple[float, Event]] = []
    problems: list[str] = []
    with watching(
        planned.make_folder(),
        lambda look: seen.extend((time.time(), event) for event in look.events),
        problems.append,
    ):
        planned.measure()
    record = planned.manifest.passes[0]
    rank = record.size - 1
    feed = RankFeed(rank, RunPaths(planned.folder).of_pass(record.id).recorder_file(rank))
    result = judged_live(case, seen, feed.windows())
    return replace(result, other_cores=record.other_cpu_cores, reason=" ".join(problems))


def judged_live(
    case: SelftestCase, seen: Sequence[tuple[float, Event]], windows: Sequence[RankWindow]
) -> CaseResult:
    """The outcome of a live case.

    Args:
        case: The truth.
        seen: Events, each with the wall-clock second in which it was reported.
        windows: What the slow rank recorded.
    """
    begin_s = begin_of(windows, NUM_WARMUP + FIRST)
    end_s = begin_of(windows, NUM_WARMUP + FIRST + NUM_SLOW)
    named = [one for one in seen if _is(one[1], EventState.BEGUN)]
    right = [at for at, event in named if event.ranks == (case.rank,) and begin_s <= at < end_s]
    cleared = [
        at
        for at, event in seen
        if _is(event, EventState.OVER) and event.ranks == (case.rank,) and at >= end_s
    ]
    live = LiveTimes(
        slow_s=end_s - begin_s,
        named_after_s=right[0] - begin_s if right else None,
        cleared_after_s=cleared[0] - end_s if cleared and right else None,
        num_false=len(named) - len(right[:1]),
    )
    ranks = tuple(
        NamedRank(rank=event.ranks[0], phase=event.phase, cost_ns=event.cost_s * 1e9)
        for _, event in named
    )
    step_ns = sum(one.length_ns for one in windows) / sum(one.num_steps for one in windows)
    return CaseResult(
        case=case, outcome=_outcome(case, live, ranks), named=ranks, step_ns=step_ns, live=live
    )


def begin_of(windows: Sequence[RankWindow], step: int) -> float:
    """When a step began, seconds of the wall clock; steps of a window take equally long.

    Raises:
        SweepIncompleteError: It is in none of the windows.
    """
    for one in windows:
        if one.first <= step <= one.last:
            return (one.wall_ns - one.length_ns * (one.last + 1 - step) / one.num_steps) / 1e9
    raise SweepIncompleteError(f"Step {step} was not recorded.")


def _is(event: Event, state: EventState) -> bool:
    return event.kind == EventKind.STRAGGLER and event.state == state


def _outcome(case: SelftestCase, live: LiveTimes, named: Sequence[NamedRank]) -> CaseOutcome:
    if live.num_false:
        return CaseOutcome.WRONG_RANK
    if live.named_after_s is None:
        return CaseOutcome.MISSED
    if named[0].phase != case.phase:
        return CaseOutcome.WRONG_PHASE
    return CaseOutcome.FOUND if live.cleared_after_s is not None else CaseOutcome.NOT_CLEARED
