"""How the analysis of a launch with a known fault is judged."""

from dataclasses import replace

import pytest

from hvdprof.model.results.selftest import (
    CaseOutcome,
    CaseResult,
    ClockCheck,
    MarkAgreement,
    NamedRank,
    Selftest,
    SelftestCase,
    judged,
)

LATE = SelftestCase(name="late", rank=1, phase="backward", amount_ns=12e6)
CLEAN = SelftestCase(name="clean")
STEP_NS = 72e6
CLOCKS = ClockCheck(
    num_compared=2, num_known=2, num_within=2, largest_bound_ns=2e4, largest_error_ns=1e3
)


def named(rank: int, phase: str = "backward", cost_ns: float = 12e6) -> NamedRank:
    return NamedRank(rank=rank, phase=phase, cost_ns=cost_ns)


@pytest.mark.parametrize(
    ("case", "ranks", "outcome"),
    [
        (LATE, (named(1),), CaseOutcome.FOUND),
        (LATE, (named(1, cost_ns=14.9e6),), CaseOutcome.FOUND),
        (LATE, (named(1, cost_ns=15.1e6),), CaseOutcome.WRONG_COST),
        (LATE, (named(1, cost_ns=8.9e6),), CaseOutcome.WRONG_COST),
        (LATE, (named(1, "forward"),), CaseOutcome.WRONG_PHASE),
        (LATE, (named(1), named(0, cost_ns=1e6)), CaseOutcome.WRONG_RANK),
        (LATE, (named(0),), CaseOutcome.WRONG_RANK),
        (LATE, (), CaseOutcome.MISSED),
        (CLEAN, (), CaseOutcome.CLEAN),
        (CLEAN, (named(0),), CaseOutcome.WRONG_RANK),
    ],
)
def test_a_launch_is_right_by_rank_phase_and_cost(
    case: SelftestCase, ranks: tuple[NamedRank, ...], outcome: CaseOutcome
) -> None:
    assert judged(case, ranks, STEP_NS, CLOCKS).outcome == outcome


def test_two_percent_of_a_long_step_are_no_error_of_the_cost() -> None:
    far = named(1, cost_ns=16e6)
    assert judged(LATE, (far,), 100e6, CLOCKS).outcome == CaseOutcome.WRONG_COST
    assert judged(LATE, (far,), 250e6, CLOCKS).outcome == CaseOutcome.FOUND


def test_a_clock_beyond_its_bound_is_wrong_whatever_is_named() -> None:
    beyond = replace(CLOCKS, num_within=1)
    assert judged(CLEAN, (), STEP_NS, beyond).outcome == CaseOutcome.WRONG_CLOCK
    # Between hosts the true offset is unknown.
    unknown = ClockCheck(
        num_compared=2, num_known=0, num_within=0, largest_bound_ns=2e4, largest_error_ns=None
    )
    assert judged(CLEAN, (), STEP_NS, unknown).outcome == CaseOutcome.CLEAN


def selftest(*results: CaseResult, marks: tuple[MarkAgreement, ...] = ()) -> Selftest:
    return Selftest(
        num_ranks=2,
        hosts="",
        device="cpu",
        controller="gloo",
        engine="horovod",
        duration_s=80.0,
        cases=results,
        marks=marks,
    )


def test_a_selftest_passes_where_nothing_is_wrong() -> None:
    right = judged(LATE, (named(1),), STEP_NS, CLOCKS)
    missed = judged(LATE, (), STEP_NS, CLOCKS)
    open_ = CaseResult(case=CLEAN, outcome=CaseOutcome.NOT_RUN, reason="--limit was reached")
    assert selftest(right).is_passed
    assert not selftest(right, missed).is_passed
    assert selftest(right, missed).wrong == [missed]
    assert (selftest(right, open_).is_passed, selftest(right, open_).unknown) == (True, [open_])
    mark = MarkAgreement(
        name="step", num=9, event_ns=1e7, profiler_ns=1.2e7, error_ns=2e6, agrees=False
    )
    assert not selftest(right, marks=(mark,)).is_passed


def test_the_error_of_the_cost_is_a_share_of_the_fault() -> None:
    assert judged(LATE, (named(1, cost_ns=13.2e6),), STEP_NS, CLOCKS).cost_error == pytest.approx(
        0.1
    )
    assert judged(LATE, (named(0),), STEP_NS, CLOCKS).cost_error is None
    assert judged(CLEAN, (), STEP_NS, CLOCKS).cost_error is None
