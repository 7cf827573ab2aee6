"""The settings that ``hvdprof tune`` tries, and what came of each.

All of it is plain values, so that a run folder keeps it as JSON (``rundir.json_codec``). Tested in
``tests/model/test_tuning.py``.
"""

from dataclasses import dataclass, field
from enum import StrEnum

TUNING_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval.

    Gains are shares of the present step time that are saved (0.25: a step takes 25 % less), per
    sample where the samples of a step differ. Changes of a loss are relative (0.01: 1 % larger).
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A setting to try against the present one.

    Attributes:
        name: Its name in tables, ``HOROVOD_CYCLE_TIME=1``.
        environment: The variables that it sets. All that a job reads from its environment belongs
            here, ``OMP_NUM_THREADS`` too.
        options: What no variable sets: fields of the options of ``hvdprof run`` or ``bench``, such
            as ``{"controller": "mpi"}``.
        arguments: Words behind the command of the script, ``("--fp16-allreduce",)``.
        changes_numerics: Whether it changes the arithmetic of the training.
        why: Why it may help, in one sentence.
        finding: The rule of the finding that proposes it; empty without one.
        predicted: The gain that a replay predicts; None where it predicts none.
        not_predicted: Why there is no prediction; empty where there is one.
    """

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    changes_numerics: bool = False
    why: str = ""
    finding: str = ""
    predicted: Estimate | None = None
    not_predicted: str = ""

    @property
    def knobs(self) -> frozenset[str]:
        """The names of the variables, options and arguments that it sets."""
        switches = {word.partition("=")[0] for word in self.arguments if word.startswith("-")}
        return frozenset({*self.environment, *self.options, *switches})

    def is_alternative_to(self, other: "Candidate") -> bool:
        """Whether both set the same variable or option, so that only one of them can be used."""
        return bool(self.knobs & other.knobs)


class TrialOutcome(StrEnum):
    """What came of a candidate."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    NO_GAIN = "no gain"
    WORSE = "worse"
    OUTRUN = "outrun"
    UNDECIDED = "undecided"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate in the race against the present setting.

    Attributes:
        candidate: What was tried.
        outcome: One of ``TrialOutcome``.
        gain: The measured gain, simultaneous over all candidates; None where nothing was measured.
        num_rounds: Rounds in which it ran beside the present setting.
        reason: Why it failed or was not tried; empty otherwise.
        loss_change: Change of the final loss, for settings that change the arithmetic; None where
            the script records no loss.
    """

    candidate: Candidate
    outcome: str
    gain: Estimate | None = None
    num_rounds: int = 0
    reason: str = ""
    loss_change: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A setting that was measured anew against the present one after the race.

    Attributes:
        names: The candidates that it joins.
        gain: The gain over the present setting; None where no launch succeeded.
        num_repeats: Launches of each side.
        is_confirmed: Whether its gain is beyond noise, and at least the margin.
        reason: Why it failed; empty otherwise.
        loss_change: As of a trial.
    """

    names: tuple[str, ...]
    gain: Estimate | None
    num_repeats: int
    is_confirmed: bool
    reason: str = ""
    loss_change: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionScore:
    """How well predicted gains agree with measured ones.

    Attributes:
        num_predicted: Candidates with a prediction.
        num_scored: Those of them whose measured gain has an interval that is closed, and no wider
            than the whole step time.
        num_covered: Those whose predicted and measured intervals overlap.
        num_anew: Those of the scored ones whose measured gain is that of a check, by fresh
            launches; of the others it is that of the race.
        median_error: Median absolute difference of predicted and measured gain, a share of the
            step time; None where none is scored.
        bias: Mean of predicted minus measured gain; None where none is scored.
        rank_correlation: Spearman's correlation of predicted and measured gains: whether the
            largest was predicted as the largest; None below three scored candidates.
        sentence: The score in one sentence.
    """

    num_predicted: int
    num_scored: int
    num_covered: int
    median_error: float | None
    bias: float | None
    rank_correlation: float | None
    sentence: str
    num_anew: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """A finished tuning; reports only format it.

    Attributes:
        sentence: The verdict in at most two sentences.
        caveat: What limits it, empty where nothing does.
        status: ``done``, ``interrupted`` or ``failed``.
        command: The training that was tuned, as words, secrets masked.
        num_ranks: The number of ranks that was tuned for.
        present: The verdict on the present setting, from its own run.
        environment: The variables to set; empty where nothing pays.
        options: The options of ``hvdprof run`` or ``bench`` to set beside them.
        arguments: Words to add behind the command of the script.
        line: The command with all of it, for a shell, secrets masked; empty where nothing pays.
        in_code: The call of ``DistributedDataParallel`` that a script makes in place of its
            variables; empty where none of them is an argument of DDP.
        next_line: The command that resumes it where the budget left no time for a race; else empty.
        gain: The gain of these over the present setting; None where nothing pays.
        beyond: The largest gain that is not excluded for the candidates that ran; None where none
            ran, or where something pays.
        margin: Smallest gain that matters, a share of the step time.
        confidence: That of the intervals of gains.
        trials: What was tried, in the order of its result.
        checks: What was measured anew after the race.
        score: How well the predictions agree.
        elapsed_s: Seconds that all of it took.
        folder: The run folder.
        notes: What was left out, and why.
    """

    sentence: str
    caveat: str
    status: str
    command: tuple[str, ...]
    num_ranks: int
    present: str
    environment: dict[str, str]
    options: dict[str, str | int | float | bool]
    arguments: tuple[str, ...]
    line: str
    gain: Estimate | None
    beyond: float | None
    margin: float
    confidence: float
    trials: tuple[Trial, ...]
    checks: tuple[Check, ...]
    score: PredictionScore | None
    elapsed_s: float
    folder: str
    notes: tuple[str, ...] = ()
    in_code: str = ""
    next_line: str = ""
