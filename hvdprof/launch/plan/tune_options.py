"""The options of ``hvdprof tune``, and those of the runs that it consists of."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.compare_options import given_options, model_options
from hvdprof.launch.plan.environment import variable_pairs
from hvdprof.launch.plan.hosts import parse_hosts
from hvdprof.launch.plan.options import DESIGN, MEASUREMENT, OUTPUT, Amount, option, record_of
from hvdprof.launch.plan.preflight import Sizes, parse_sizes
from hvdprof.launch.plan.run_options import MOST_REPEATS, RunOptions, ScriptOptions
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.json_codec import decode

MOST_ROUNDS = 6
OPTION_VARIABLES: Mapping[str, str] = {
    "cycle_time_ms": "HOROVOD_CYCLE_TIME",
    "fusion_threshold_mb": "HOROVOD_FUSION_THRESHOLD",
    "cache_capacity": "HOROVOD_CACHE_CAPACITY",
    "num_threads": "OMP_NUM_THREADS",
}
"""The variables that options of ``run`` and ``bench`` set; the threshold in bytes."""

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_NUMBERS: Mapping[str, tuple[float, str]] = {
    "HOROVOD_CYCLE_TIME": (1e6, "2.5"),
    "HOROVOD_FUSION_THRESHOLD": (2.0**40, "67108864"),
    "HOROVOD_CACHE_CAPACITY": (2.0**31, "2048"),
}
"""Variables that hold a number: the largest that makes sense, and an example."""

EXAMPLE = "hvdprof tune --np 2 -- python train.py"

Options = RunOptions | BenchOptions
OptionValues = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions(ScriptOptions):
    """The options of ``hvdprof run``, and what is tried."""

    command: tuple[str, ...] = option(
        (),
        "The script after `--`, as one rank starts it: python train.py ARGS. Or the folder of an "
        "earlier tuning: its result is shown again.",
        panel=DESIGN,
    )
    models: str | None = option(
        None,
        "Tune a reference model of `hvdprof bench` instead of a script: mnist, resnet50, ...",
        "--models",
        panel=DESIGN,
    )
    np: Sizes | None = option(
        None,
        "Number of ranks: the cores or GPUs when not given. Of several the largest is tuned; the "
        "others are measured with the present setting alone.",
        "--np",
        "-np",
        panel=DESIGN,
    )
    only: str | None = option(
        None,
        "Try these settings alone: names of variables, or of other settings as printed, separated "
        "by commas.",
        "--only",
        panel=DESIGN,
    )
    try_: tuple[str, ...] = option(
        (),
        "Also try this variable: NAME=VALUE. Can be given several times.",
        "--try",
        panel=DESIGN,
        repeated=True,
    )
    allow_numerics: bool = option(
        False,
        "Also try settings that change the arithmetic of the training (fp16, accumulation); their "
        "final loss is reported.",
        "--allow-numerics",
        panel=DESIGN,
    )
    repeats: int = option(
        MOST_REPEATS,
        "Most launches of each setting in the check of what wins; it stops after 3 or 6 where it "
        f"is decided. The race before it has at most {MOST_ROUNDS} rounds.",
        "--repeats",
        panel=MEASUREMENT,
        lowest=2,
    )
    budget: Amount | None = option(
        None,
        "Use at most this time, 20m or 90s. Where it is short, launches have fewer steps, then "
        "fewer settings are tried; where none can be, the predicted gains are shown.",
        "--budget",
        panel=MEASUREMENT,
    )
    resume: str | Path | None = option(
        None,
        "The folder of a tuning that had no time to race: its present setting is not measured "
        "again.",
        "--resume",
        panel=MEASUREMENT,
    )
    output: str | Path | None = option(
        None, "The folder of the tuning; runs/TIME-tune when not given.", "--runs", panel=OUTPUT
    )


def check_tune_options(options: TuneOptions) -> None:
    """Find mistakes that show without asking this machine anything.

    Raises:
        UsageError: There is no script, or an option does not go with tuning.
    """
    if options.host_discovery_script is not None:
        raise UsageError(
            "An elastic job cannot be tuned: its number of ranks changes.", hint=EXAMPLE
        )
    if not options.command and options.models is None:
        raise UsageError("The script is required, or --models.", hint=EXAMPLE)
    if options.command and options.models is not None:
        raise UsageError("Either a script or --models is tuned.", hint=EXAMPLE)
    if options.models is not None and "," in options.models:
        raise UsageError(
            f"--models {options.models}: one model is tuned at a time.",
            hint="hvdprof tune --models resnet50 --np 2",
        )
    if options.resume is not None and options.output is not None:
        raise UsageError("--resume writes into the folder that it names.", hint="Omit --runs.")
    for name, value in variable_pairs("--try", options.try_):
        _check_number_of_horovod(name, value)


def _check_number_of_horovod(name: str, value: str) -> None:
    """Refuse what Horovod would read as another number than the user means.

    Raises:
        UsageError: The variable holds a number, and the value is none in its range.
    """
    if name not in _NUMBERS:
        return
    largest, example = _NUMBERS[name]
    if not _NUMBER.fullmatch(value) or float(value) > largest:
        raise UsageError(
            f"--try {name}={value}: Horovod reads a number from 0 to {largest:g} here.",
            hint=f"--try {name}={example}",
        )


def tuned_sizes(options: TuneOptions, *, num_cores: int, num_gpus: int) -> tuple[int, ...]:
    """The numbers of ranks to measure; the largest is tuned.

    Args:
        options: Those of the tuning.
        num_cores: Cores of this host.
        num_gpus: Its GPUs; 0 where ranks run on cores.

    Raises:
        UsageError: One rank alone has no communication.
    """
    if options.np is not None:
        sizes = parse_sizes(options.np)
    elif options.hosts is not None:
        sizes = (sum(host.slots for host in parse_hosts(options.hosts)),)
    else:
        sizes = (num_gpus or num_cores,)
    if sizes[-1] < 2:
        raise UsageError(
            "Settings of communication have no effect on one rank.", hint=f"At least two: {EXAMPLE}"
        )
    return sizes


def present_options(options: TuneOptions, sizes: Sequence[int], folder: Path) -> Options:
    """The options of the run that measures the present setting, with its trace."""
    own = {"np": tuple(sizes), "output": str(folder), "repeats": 1, "budget": None}
    if options.models is None:
        names = {field.name for field in fields(RunOptions)}
        record = {**given_options(options, names), **own}
        return decode(RunOptions, record, "options", unknown_keys=False)
    return model_options(options, options.models, own)


def variant_options(
    present: Options, setting: Candidate, folder: Path, *, num_ranks: int, repeats: int
) -> Options:
    """The options of the run of one setting, without a trace.

    Raises:
        UsageError: An option of the setting is not one of this kind of run, or has another type.
    """
    variables = tuple(f"{name}={value}" for name, value in setting.environment.items())
    changed: dict[str, object] = {
        "np": (num_ranks,),
        "output": str(folder),
        "repeats": repeats,
        "interleave": False,
        "net": False,
        "env": (*present.env, *variables),
        **setting.options,
    }
    if isinstance(present, RunOptions):
        changed |= {"trace": False, "command": (*present.command, *setting.arguments)}
    return with_changes(present, changed)


def with_changes(options: Options, changes: Mapping[str, object]) -> Options:
    """The options with other values of some fields.

    Raises:
        UsageError: A field does not exist, or has another type.
    """
    try:
        return decode(
            type(options), {**record_of(options), **changes}, "options", unknown_keys=False
        )
    except ValueError as error:
        raise UsageError(f"A setting cannot be used: {error}.") from error
