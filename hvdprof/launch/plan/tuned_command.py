"""What a tuning names, as a command line to copy."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.launch.plan.options import DESIGN, HOROVOD, RANKS, arguments_of, declared
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.plan.tune_options import (
    OPTION_VARIABLES,
    Options,
    OptionValues,
    TuneOptions,
    with_changes,
)
from hvdprof.launch.plan.workload import thread_variables
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.launch_format import BUCKET_CAP, DDP_ARGUMENTS
from hvdprof.rundir.masking import mask_command, mask_value

_THREADS = "num_threads"
_PANELS = (DESIGN, RANKS, HOROVOD)
_OTHERS = (_THREADS, "batch_size", "image_size", "data", "data_dir", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedSetting:
    """A setting as it was measured.

    Attributes:
        environment: The variables that it sets.
        options: The options of ``hvdprof run`` or ``bench`` that no variable replaces.
        arguments: Words behind the command of the script.
    """

    environment: Mapping[str, str]
    options: OptionValues
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it in a row, for a sentence; the shell reads each word as it was measured."""
        return " ".join(
            [
                *_shown(self.environment),
                *(f"--{name.replace('_', '-')} {value}" for name, value in self.options.items()),
                *map(shlex.quote, self.arguments),
            ]
        )


def tuned_setting(setting: Candidate, present: Options) -> TunedSetting:
    """A setting with variables in place of the options of scripts, where they have the same effect.

    Reference models keep their options: hvdprof sets these variables itself in their ranks.
    """
    variables, options = dict(setting.environment), dict(setting.options)
    if isinstance(present, RunOptions):
        for name, value in setting.options.items():
            if name in OPTION_VARIABLES:
                variables |= _variables_of(name, value)
                del options[name]
    return TunedSetting(environment=variables, options=options, arguments=setting.arguments)


def tuned_command(setting: TunedSetting, present: Options, num_ranks: int) -> str:
    """The command that starts the training with a setting, for a shell; secrets are masked."""
    is_script = isinstance(present, RunOptions)
    base = {
        name: getattr(present, name)
        for name, one in declared(type(present))
        if one.panel in _PANELS or name in _OTHERS
    }
    if is_script and thread_variables(1).keys() <= setting.environment.keys():
        # The option would replace the variables.
        base[_THREADS] = None
    variables = _assignments(setting.environment)
    own = [word for word in present.env if word.partition("=")[0] not in setting.environment]
    env = [_masked(word) for word in own]
    if present.hosts is not None:
        # Other hosts get the variables of a surrounding shell only in part.
        env += [f"{name}={value}" for name, value in setting.environment.items()]
        variables = []
    changed: dict[str, object] = {**base, **setting.options, "np": (num_ranks,), "env": tuple(env)}
    if isinstance(present, RunOptions):
        changed["command"] = tuple(mask_command((*present.command, *setting.arguments)))
    words = arguments_of(with_changes(type(present)(), changed))
    return " ".join([*variables, "hvdprof", "run" if is_script else "bench", shlex.join(words)])


def resumed_command(
    options: TuneOptions, folder: Path, budget_s: float, margin: Sequence[str]
) -> str:
    """The command that resumes a tuning behind its present setting, for so many seconds; masked.

    ``margin`` are the words of its margin, none for the default.
    """
    given = replace(
        options,
        resume=str(folder),
        output=None,
        budget=f"{budget_s:g}s",
        env=tuple(map(_masked, options.env)),
        command=tuple(mask_command(options.command)),
    )
    return shlex.join(["hvdprof", "tune", *margin, *arguments_of(given)])


def _variables_of(name: str, value: str | float) -> dict[str, str]:
    if name == _THREADS:
        return thread_variables(int(value))
    if name == "fusion_threshold_mb":
        return {OPTION_VARIABLES[name]: str(round(float(value) * 2**20))}
    return {OPTION_VARIABLES[name]: str(value)}


def _shown(environment: Mapping[str, str]) -> list[str]:
    """Variables as a sentence names them: those of DDP by the argument that a script writes."""
    others = {name: value for name, value in environment.items() if name not in DDP_ARGUMENTS}
    arguments = [
        f"{argument}={environment[name] if name == BUCKET_CAP else environment[name] == '1'}"
        for name, argument in DDP_ARGUMENTS.items()
        if name in environment
    ]
    return [*_assignments(others), *arguments]


def _assignments(environment: Mapping[str, str]) -> list[str]:
    """Variables in front of a command: a quoted name would be a command."""
    return [f"{name}={shlex.quote(value)}" for name, value in environment.items()]


def _masked(word: str) -> str:
    name, _, value = word.partition("=")
    return f"{name}={mask_value(name, value)}"
