"""What a tuning tries: the candidates of its run and those that the user names."""

import difflib
import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from hvdprof.analyze.tune.candidates import VARIABLES, proposals
from hvdprof.analyze.tune.predicted_gain import with_predictions
from hvdprof.analyze.tune.tuned_job import GLOO, MPI, Means, TunedJob, tuned_job
from hvdprof.api.options import TuneOptions
from hvdprof.errors import UsageError
from hvdprof.launch.plan.environment import variable_pairs
from hvdprof.launch.plan.tune_options import OPTION_VARIABLES
from hvdprof.launch.run.script_command import script_of, variables_of_env
from hvdprof.launch.run.script_launcher import Tools, started_by_torchrun
from hvdprof.model.results.tuning import Candidate, Trial, TrialOutcome
from hvdprof.model.run import RunAnalysis
from hvdprof.rundir.launch_format import DDP_ARGUMENTS
from hvdprof.rundir.masking import mask_command, mask_value

LARGEST_SCRIPT_BYTES = 1_000_000

_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_NOT_ALLOWED = "it changes the arithmetic; --allow-numerics tries it"
_ASKED_FOR = "--try asks for it."


@dataclass(frozen=True, slots=True)
class Choice:
    """What is tried, and what is not.

    Attributes:
        candidates: To be tried, in the order of their predicted gain.
        untried: Candidates that are not tried, and why.
        notes: Settings that are no candidates, and why.
    """

    candidates: tuple[Candidate, ...]
    untried: tuple[Trial, ...]
    notes: tuple[str, ...]


def check_command(command: tuple[str, ...]) -> None:
    """Check that variables reach the script.

    Raises:
        UsageError: ``env`` in front of the script replaces variables of the tuning.
    """
    words = variables_of_env(command) if command else ()
    if not words:
        return
    rest = shlex.join(mask_command(command[1 + len(words) :]))
    if all("=" in word and not word.startswith("-") for word in words):
        parted = [word.partition("=") for word in words]
        pairs = [(name, mask_value(name, value)) for name, _, value in parted]
        moved = shlex.join(word for name, value in pairs for word in ("--env", f"{name}={value}"))
        hint = f"hvdprof tune {moved} -- {rest}"
    else:
        hint = f"Change the environment before hvdprof starts: hvdprof tune -- {rest}"
    raise UsageError(
        f"{shlex.join(mask_command(('env', *words)))} in front of the script "
        "replaces variables that are tried.",
        hint=hint,
    )


def check_only(options: TuneOptions) -> None:
    """Find a misspelt variable in ``--only`` before anything is measured.

    Raises:
        UsageError: A name looks like a variable, and no rule and no ``--try`` sets it.
    """
    known = {*VARIABLES, *(name for name, _ in variable_pairs("--try", options.try_))}
    for text in (options.only or "").split(","):
        name = text.strip().partition("=")[0]
        if _VARIABLE.fullmatch(name) and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"--only {name}: tune sets no variable of this name.",
                hint=f"Did you mean {close[0]}?" if close else f"Also try it: --try {name}=VALUE",
            )


def job_of(analysis: RunAnalysis, options: TuneOptions, tools: Tools, margin: float) -> TunedJob:
    """The job that is tuned: the largest number of ranks of the run.

    Raises:
        UsageError: The run has several cells of that number of ranks.
    """
    horovod = tools.horovod
    built = ((GLOO, horovod.gloo), (MPI, horovod.mpi and tools.mpi is not None))
    means = Means(
        controllers=tuple(name for name, is_there in built if is_there),
        script_text=_script_text(options),
    )
    return tuned_job(analysis, means, margin=margin)


def choose(job: TunedJob, options: TuneOptions) -> Choice:
    """The candidates of a job, with predicted gains; those of the user last.

    Raises:
        UsageError: ``--only`` names no setting.
    """
    found = proposals(job)
    asked = [_asked_for(job, *pair) for pair in variable_pairs("--try", options.try_)]
    every = {candidate.name: candidate for candidate in (*found.candidates, *asked)}
    wanted = _wanted(every.values(), options.only, {candidate.name for candidate in asked})
    predicted = with_predictions(job, wanted)
    allowed = [
        candidate
        for candidate in predicted
        if options.allow_numerics or not candidate.changes_numerics
    ]
    return Choice(
        tuple(sorted(allowed, key=_predicted, reverse=True)),
        tuple(
            untried(candidate, _NOT_ALLOWED) for candidate in predicted if candidate not in allowed
        ),
        tuple(f"{skipped.knob}: {skipped.reason}" for skipped in found.untried),
    )


def untried(candidate: Candidate, reason: str) -> Trial:
    """The trial of a candidate that is not tried."""
    return Trial(candidate=candidate, outcome=str(TrialOutcome.NOT_TRIED), reason=reason)


def _predicted(candidate: Candidate) -> float:
    return candidate.predicted.value if candidate.predicted is not None else 0.0


def _wanted(
    candidates: Iterable[Candidate], only: str | None, asked: Collection[str]
) -> list[Candidate]:
    """The candidates that ``--only`` names, and those that ``--try`` asks for."""
    given = list(candidates)
    if only is None:
        return given
    names = {part.strip() for part in only.split(",")}
    unknown = names.difference(*map(_names, given))
    if unknown:
        known = ", ".join(sorted({candidate.name for candidate in given})) or "none"
        raise UsageError(
            f"--only {','.join(sorted(unknown))}: no setting to try has this name.",
            hint=f"Settings of this job: {known}. Others: --try NAME=VALUE",
        )
    return [
        candidate for candidate in given if candidate.name in asked or _names(candidate) & names
    ]


def _names(candidate: Candidate) -> set[str]:
    """All names of a candidate; an option also has that of the variable that it sets."""
    variables = {OPTION_VARIABLES.get(name, name) for name in candidate.options}
    arguments = {DDP_ARGUMENTS[name] for name in candidate.environment if name in DDP_ARGUMENTS}
    return {candidate.name, *candidate.knobs, *variables, *arguments}


def _asked_for(job: TunedJob, name: str, value: str) -> Candidate:
    """A variable of the user's; as an option where hvdprof sets this variable itself."""
    by_option = {variable: option for option, variable in OPTION_VARIABLES.items()}
    named = f"{name}={value}"
    is_set_here = job.is_bench or (name == "OMP_NUM_THREADS" and job.sets_threads)
    if name in by_option and is_set_here and value.replace(".", "", 1).isdecimal():
        number = float(value)
        if name == "HOROVOD_FUSION_THRESHOLD":
            return Candidate(name=named, options={by_option[name]: number / 2**20}, why=_ASKED_FOR)
        whole = int(number) if number == int(number) else number
        return Candidate(name=named, options={by_option[name]: whole}, why=_ASKED_FOR)
    return Candidate(name=named, environment={name: value}, why=_ASKED_FOR)


def _script_text(options: TuneOptions) -> str:
    """The source of a script; empty where there is none, or where it cannot be read."""
    command = started_by_torchrun(options)[0].command
    script: Path | None = script_of(command) if command else None
    try:
        if script is None or script.stat().st_size > LARGEST_SCRIPT_BYTES:
            return ""
        return script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # Its arguments stay unknown, as those of a module.
        return ""
