"""What a rule on candidates returns: a setting to try, or why one is not tried."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.results.tuning import Candidate


@dataclass(frozen=True, slots=True)
class Untried:
    """A setting that is not tried, and why.

    Attributes:
        knob: Its name: ``fp16``.
        reason: Why not, in one or two sentences.
    """

    knob: str
    reason: str


Proposal = Candidate | Untried


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting of Horovod or of the threads: its variable, and the option of ``hvdprof bench``.

    Attributes:
        variable: The variable that sets it.
        option: The option of ``bench`` that sets this variable; empty where there is none.
        per_unit: The option's value times this is the variable's.
    """

    variable: str
    option: str = ""
    per_unit: float = 1.0


def settings_of(
    job: TunedJob, knob: Knob, values: Iterable[float], *, why: str, finding: str = ""
) -> Iterator[Candidate]:
    """One candidate for each value, smallest changes of the command line first.

    Reference models take their settings as options of ``bench``, and scripts from their
    environment.
    """
    for value in dict.fromkeys(values):
        text = f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
        by_option = job.is_bench and knob.option
        option = value / knob.per_unit
        whole = int(option) if option == int(option) else option
        yield Candidate(
            name=f"{knob.variable}={text}",
            environment={} if by_option else {knob.variable: text},
            options={knob.option: whole} if by_option else {},
            why=why,
            finding=finding,
        )
