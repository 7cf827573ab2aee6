"""The options of ``hvdprof compare --run``: two variants of a script or model, by turns."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.options import (
    DESIGN,
    MEASUREMENT,
    OUTPUT,
    Amount,
    declared,
    default_of,
    option,
    record_of,
)
from hvdprof.launch.plan.run_options import MOST_REPEATS, RunOptions, ScriptOptions
from hvdprof.rundir.json_codec import decode

BENCH_SECONDS = 5.0
"""Measured seconds of a launch of reference models."""

AGAINST = "--against"


def given_options(options: ScriptOptions, names: Collection[str]) -> dict[str, object]:
    """The options of these names that differ from the defaults of ``hvdprof run``."""
    record = record_of(options)
    return {
        field.name: record[field.name]
        for field in fields(ScriptOptions)
        if field.name in names
        and getattr(options, field.name) != default_of(ScriptOptions, field.name)
    }


def model_options(
    options: ScriptOptions, models: str, changes: Mapping[str, object]
) -> BenchOptions:
    """The options of ``hvdprof bench`` that measure a reference model in place of a script.

    Raises:
        UsageError: An option is for scripts alone.
    """
    seconds = {} if options.num_steps is not None else {"max_seconds": BENCH_SECONDS}
    of_models = {"models": models, "preset": "quick", "compression": "none"}
    of_bench = {field.name for field in fields(BenchOptions)}
    of_script = {field.name for field in fields(ScriptOptions)} - of_bench
    given = given_options(options, of_bench)
    if others := given_options(options, of_script):
        flags = dict(declared(ScriptOptions))[next(iter(others))].flags
        raise UsageError(
            f"{flags[0].rpartition('/')[2] if flags else 'A command'} is for scripts, not for "
            "--models.",
            hint="Omit it.",
        )
    record = {**given, **changes, **seconds, **of_models}
    return decode(BenchOptions, record, "options", unknown_keys=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions(ScriptOptions):
    """The options of ``hvdprof run``, for two variants.

    ``command`` holds both commands with ``--against`` between them, or one that both run.
    """

    command: tuple[str, ...] = option(
        (),
        "RUN_A RUN_B: run directories, or tables of ranks and speeds; those not "
        "given are the newest in ./runs. With --run one script after `--`, or two: `-- python a.py "
        "--against -- python b.py`.",
        panel=DESIGN,
    )
    run: bool = option(
        False,
        "Measure two variants of a script by turns (A B B A), and compare them.",
        "--run",
        panel=DESIGN,
    )
    models: str | None = option(
        None,
        "With --run: measure reference models of `hvdprof bench` instead of a script: mnist, "
        "resnet50, ...; --env-a and --env-b make the difference.",
        "--models",
        panel=DESIGN,
    )
    env_a: tuple[str, ...] = option(
        (),
        "With --run: set a variable for the first variant: NAME=VALUE. Can be given several times.",
        "--env-a",
        panel=DESIGN,
        repeated=True,
    )
    env_b: tuple[str, ...] = option(
        (), "The same for the second variant.", "--env-b", panel=DESIGN, repeated=True
    )
    repeats: int = option(
        MOST_REPEATS,
        "With --run: most launches of each variant at every number of ranks. It stops after 3 or 6 "
        "where the outcome is decided.",
        "--repeats",
        panel=MEASUREMENT,
        lowest=2,
    )
    budget: Amount | None = option(
        None, "With --run: stop when this time is used, 5m or 90s.", "--budget", panel=MEASUREMENT
    )
    output: str | Path | None = option(
        None,
        "With --run: the folder for both run directories; runs/TIME-compare when not given.",
        "--runs",
        panel=OUTPUT,
    )


def variants_of(
    options: CompareOptions,
) -> tuple[RunOptions | BenchOptions, RunOptions | BenchOptions]:
    """The options of both variants, as ``hvdprof run``, or ``bench`` for a model, takes them.

    Raises:
        UsageError: There is no script, or there are two sources; or nothing differs.
    """
    if options.models is not None and options.command:
        raise _incomplete("Either a script or --models is measured.")
    commands = _commands(options.command) if options.models is None else ((), ())
    if commands[0] == commands[1] and sorted(options.env_a) == sorted(options.env_b):
        raise UsageError(
            "Both variants are the same.",
            hint="hvdprof compare --run --np 2 --env-a HOROVOD_CYCLE_TIME=1 "
            "--env-b HOROVOD_CYCLE_TIME=5 -- python train.py; or a second command: "
            f"-- python a.py {AGAINST} -- python b.py",
        )
    # Each variant is measured alone: the other one is its neighbour in time.
    alone = {"interleave": False, "budget": None}
    environments = [(*options.env, *env) for env in (options.env_a, options.env_b)]
    if options.models is not None:
        # The default number of launches is that of a comparison.
        own = {**alone, "repeats": options.repeats}
        of_model = [
            model_options(options, options.models, {**own, "env": environment})
            for environment in environments
        ]
        return of_model[0], of_model[1]
    shared = {field.name: getattr(options, field.name) for field in fields(ScriptOptions)}
    base = RunOptions(**shared | alone)
    first, second = (
        replace(base, command=command, env=one)
        for command, one in zip(commands, environments, strict=True)
    )
    return first, second


def _commands(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The two commands; the same twice where one is given."""
    if AGAINST not in words:
        if not words:
            raise _incomplete("The script is required.")
        return words, words
    place = words.index(AGAINST)
    first, second = words[:place], words[place + 1 :]
    second = second[1:] if second[:1] == ("--",) else second
    if not first or not second:
        raise _incomplete(f"{AGAINST} stands between two commands.")
    return first, second


def _incomplete(message: str) -> UsageError:
    return UsageError(
        message, hint=f"hvdprof compare --run --np 2 -- python a.py {AGAINST} -- python b.py"
    )
