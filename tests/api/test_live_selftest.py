"""What is made of the events of a watched launch: named, missed, not cleared, false names."""

import pytest

from hvdprof.api.live import Event
from hvdprof.api.live_selftest import (
    FIRST,
    NUM_LIVE_STEPS,
    NUM_SLOW,
    begin_of,
    judged_live,
    live_case,
)
from hvdprof.api.options import NUM_WARMUP
from hvdprof.errors import SweepIncompleteError
from hvdprof.live.rank_feed import RankWindow
from hvdprof.model.results.selftest import CaseOutcome
from hvdprof.rundir.recording.fault_plan import Fault, parse_faults
from hvdprof.rundir.recording.stall_format import EventKind, EventState

CASE = live_case(2)
STEP_S, PER = 0.1, 8
BEGIN_S, END_S = ((NUM_WARMUP + FIRST + more) * STEP_S for more in (0, NUM_SLOW))
WINDOWS = [
    RankWindow(
        *("main", first, first + PER - 1, PER, 0, round(PER * STEP_S * 1e9), None),
        *(round((first + PER) * STEP_S * 1e9), False, False),
    )
    for first in range(0, NUM_WARMUP + NUM_LIVE_STEPS, PER)
]


def _event(state: EventState, rank: int = 1, phase: str = "forward") -> Event:
    kind = EventKind.STRAGGLER
    return Event(0, kind, state, 0.0, 0.0, "main", 1, (rank,), "h", phase, 0.024, 0.1, "", "")


def _begun(at_s: float, rank: int = 1, phase: str = "forward") -> tuple[float, Event]:
    return at_s, _event(EventState.BEGUN, rank, phase)


def _over(at_s: float) -> tuple[float, Event]:
    return at_s, _event(EventState.OVER)


def test_the_case_injects_what_it_says() -> None:
    (fault,) = parse_faults(CASE.fault)
    assert isinstance(fault, Fault)
    due = [step for step in range(NUM_LIVE_STEPS) if fault.is_due(1, 2, step)]
    assert (due[0], len(due)) == (FIRST, NUM_SLOW)
    assert (fault.amount, fault.phase) == (CASE.amount_ns, CASE.phase)
    assert not fault.is_due(0, 2, FIRST)


def test_times_count_from_the_begin_and_the_end_of_the_delay() -> None:
    result = judged_live(CASE, [_begun(BEGIN_S + 20), _over(END_S + 12)], WINDOWS)
    assert result.outcome == CaseOutcome.FOUND
    assert result.live is not None
    assert result.live.named_after_s == pytest.approx(20)
    assert result.live.cleared_after_s == pytest.approx(12)
    assert result.live.slow_s == pytest.approx(NUM_SLOW * STEP_S)
    assert (result.live.num_false, result.step_ns) == (0, pytest.approx(STEP_S * 1e9))


@pytest.mark.parametrize(
    ("seen", "outcome", "num_false"),
    [
        ([], CaseOutcome.MISSED, 0),
        ([_begun(BEGIN_S + 20)], CaseOutcome.NOT_CLEARED, 0),
        ([_begun(BEGIN_S - 1), _over(END_S + 1)], CaseOutcome.WRONG_RANK, 1),
        ([_begun(END_S + 1), _over(END_S + 9)], CaseOutcome.WRONG_RANK, 1),
        ([_begun(BEGIN_S + 9, rank=0)], CaseOutcome.WRONG_RANK, 1),
        ([_begun(BEGIN_S + 9, phase="data"), _over(END_S + 9)], CaseOutcome.WRONG_PHASE, 0),
        ([_begun(BEGIN_S + 9), _over(END_S + 9), _begun(END_S + 10)], CaseOutcome.WRONG_RANK, 1),
        ([_begun(BEGIN_S + 9), _over(END_S - 5)], CaseOutcome.NOT_CLEARED, 0),
    ],
)
def test_what_is_wrong_has_a_name(
    seen: list[tuple[float, Event]], outcome: CaseOutcome, num_false: int
) -> None:
    result = judged_live(CASE, seen, WINDOWS)
    assert result.live is not None
    assert (result.outcome, result.live.num_false) == (outcome, num_false)


def test_steps_of_a_window_take_equally_long() -> None:
    assert begin_of(WINDOWS, 0) == pytest.approx(0)
    assert begin_of(WINDOWS, PER + 3) == pytest.approx((PER + 3) * STEP_S)
    with pytest.raises(SweepIncompleteError, match="Step 99999 was not recorded"):
        begin_of(WINDOWS, 99_999)
