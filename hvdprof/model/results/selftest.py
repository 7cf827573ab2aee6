"""What ``hvdprof selftest`` injects, what the analysis makes of it, and what the recorder costs.

All of it is plain values, which become JSON. Tested in ``tests/model/test_selftest.py``.
"""

from dataclasses import dataclass
from enum import StrEnum

SELFTEST_SCHEMA_VERSION = 1

COST_TOLERANCE = 0.25
"""Largest error of the cost of a fault, a share of the fault."""

LEAST_TOLERANCE = 0.02
"""An error of the cost below this share of the step is no error."""


class CaseOutcome(StrEnum):
    """What the analysis makes of a case."""

    FOUND = "found"
    CLEAN = "nothing named"
    MISSED = "missed"
    WRONG_PHASE = "wrong phase"
    WRONG_RANK = "wrong rank named"
    WRONG_COST = "wrong cost"
    NOT_CLEARED = "named to the end"
    WRONG_CLOCK = "clock beyond its bound"
    FAILED = "launch failed"
    NOT_RUN = "not run"


RIGHT = (CaseOutcome.FOUND, CaseOutcome.CLEAN)
UNKNOWN = (CaseOutcome.FAILED, CaseOutcome.NOT_RUN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestCase:
    """A launch with a fault of known size, or without one.

    Attributes:
        name: A few words for people.
        fault: The fault as ``hvdprof inject`` takes it; empty for none.
        rank: The rank that the analysis must name; None where it must name no rank.
        phase: The phase that it must name; empty where it must name no rank.
        amount_ns: What the fault adds to each step.
        offset_ns: By how much the clock of the last rank is ahead on purpose.
        drift: By which share that clock is fast.
    """

    name: str
    fault: str = ""
    rank: int | None = None
    phase: str = ""
    amount_ns: float = 0.0
    offset_ns: float = 0.0
    drift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRank:
    """A straggler of the analysis, with its phase and its cost per step."""

    rank: int
    phase: str
    cost_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCheck:
    """The comparisons of clocks in a launch.

    Attributes:
        num_compared: Comparisons with a bound.
        num_known: Those whose true offset is known: ranks on the host of rank 0.
        num_within: Those of them whose error is within the bound.
        largest_bound_ns: The largest bound; None without a comparison.
        largest_error_ns: The largest error; None where no true offset is known.
    """

    num_compared: int
    num_known: int
    num_within: int
    largest_bound_ns: float | None
    largest_error_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTimes:
    """What a watcher reported, while the job ran, of a rank that was slow for a while; seconds.

    Attributes:
        slow_s: How long the rank was slow.
        named_after_s: Since when it was slow then; None where it was not named meanwhile.
        cleared_after_s: How long it was no longer slow then; None where it was not cleared.
        num_false: Other names: of other ranks, or of this one while it was not slow.
    """

    slow_s: float
    named_after_s: float | None
    cleared_after_s: float | None
    num_false: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """A case and what came of it.

    Attributes:
        case: The fault.
        outcome: Whether the analysis is right.
        named: The ranks that it names as stragglers, those with the largest cost first.
        step_ns: The median step as measured; None where the launch failed.
        clocks: The comparisons of clocks; None where the launch failed, or was watched.
        live: What a watcher reported meanwhile; None where none was there.
        reason: Why the launch failed; empty where it did not.
        attempts: Launches of the case; one that is judged wrong is tried once more.
        other_cores: Cores that other processes kept busy meanwhile; None where unknown.
    """

    case: SelftestCase
    outcome: CaseOutcome
    named: tuple[NamedRank, ...] = ()
    step_ns: float | None = None
    clocks: ClockCheck | None = None
    live: LiveTimes | None = None
    reason: str = ""
    attempts: int = 1
    other_cores: float | None = None

    @property
    def cost_ns(self) -> float | None:
        """The cost of the rank that has the fault; None where it is not named."""
        own = [rank.cost_ns for rank in self.named if rank.rank == self.case.rank]
        return own[0] if own else None

    @property
    def cost_error(self) -> float | None:
        """The error of that cost, a share of the fault; None where the rank is not named."""
        cost_ns = self.cost_ns
        return None if cost_ns is None else cost_ns / self.case.amount_ns - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderCost:
    """What the recorder costs a step of a small model, in one process of this host.

    Attributes:
        model: The model and its batch.
        step_ns: A step without the recorder.
        direct_ns: The time of the recorder's own code in a step.
        cpu_ratio: Processor time of a step with the recorder, divided by that without it.
        cpu_ratio_low: Lower end of its 95 % interval.
        cpu_ratio_high: Upper end.
    """

    model: str
    step_ns: float
    direct_ns: float
    cpu_ratio: float
    cpu_ratio_low: float
    cpu_ratio_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkAgreement:
    """How far CUDA events and torch.profiler differ on a length.

    Attributes:
        name: ``step``, ``forward`` or ``backward``.
        num: Steps that were compared.
        event_ns: The median by CUDA events.
        profiler_ns: The median by the kernels of the profiler.
        error_ns: The median of the absolute differences.
        agrees: Whether that is within 5 % or 0.1 ms.
    """

    name: str
    num: int
    event_ns: float
    profiler_ns: float
    error_ns: float
    agrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Selftest:
    """A finished self-test.

    Attributes:
        num_ranks: Ranks per launch.
        hosts: The hosts as given; empty for this host alone.
        device: Where the model computed.
        controller: Horovod's controller.
        engine: What reduced the gradients, ``horovod`` or ``ddp``.
        duration_s: What it took.
        cases: The launches.
        recorder: What the recorder costs; None where that was not measured.
        marks: CUDA events against the profiler; empty without a GPU.
        not_measured: What was not measured, and why.
    """

    num_ranks: int
    hosts: str
    device: str
    controller: str
    engine: str
    duration_s: float
    cases: tuple[CaseResult, ...]
    recorder: RecorderCost | None = None
    marks: tuple[MarkAgreement, ...] = ()
    not_measured: tuple[str, ...] = ()

    @property
    def wrong(self) -> list[CaseResult]:
        """The cases of which the analysis says something wrong."""
        return [case for case in self.cases if case.outcome not in (*RIGHT, *UNKNOWN)]

    @property
    def unknown(self) -> list[CaseResult]:
        """The cases without a result."""
        return [case for case in self.cases if case.outcome in UNKNOWN]

    @property
    def is_passed(self) -> bool:
        """Whether all that was measured is right; cases without a result are not counted."""
        return not self.wrong and all(mark.agrees for mark in self.marks)


def judged(
    case: SelftestCase, named: tuple[NamedRank, ...], step_ns: float, clocks: ClockCheck
) -> CaseResult:
    """The outcome of a case.

    The cost may differ from the fault by 25 % of it, or by 2 % of the step.

    Args:
        case: The truth.
        named: The stragglers of the analysis.
        step_ns: The median step.
        clocks: The comparisons of clocks.
    """
    return CaseResult(
        case=case,
        outcome=_outcome(case, named, step_ns, clocks),
        named=tuple(sorted(named, key=lambda rank: -rank.cost_ns)),
        step_ns=step_ns,
        clocks=clocks,
    )


def _outcome(
    case: SelftestCase, named: tuple[NamedRank, ...], step_ns: float, clocks: ClockCheck
) -> CaseOutcome:
    if clocks.num_within < clocks.num_known:
        return CaseOutcome.WRONG_CLOCK
    if any(rank.rank != case.rank for rank in named):
        return CaseOutcome.WRONG_RANK
    if case.rank is None:
        return CaseOutcome.CLEAN
    if not named:
        return CaseOutcome.MISSED
    if named[0].phase != case.phase:
        return CaseOutcome.WRONG_PHASE
    error_ns = abs(named[0].cost_ns - case.amount_ns)
    if error_ns > max(COST_TOLERANCE * case.amount_ns, LEAST_TOLERANCE * step_ns):
        return CaseOutcome.WRONG_COST
    return CaseOutcome.FOUND
