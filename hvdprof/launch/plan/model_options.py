"""Options for a reference model where a command of ``hvdprof run`` is expected.

Tested in ``tests/launch/plan/test_compare_options.py`` and ``test_tune_options.py``.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields

from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.options import declared, default_of, record_of
from hvdprof.launch.plan.run_options import ScriptOptions
from hvdprof.rundir.json_codec import decode

BENCH_SECONDS = 5.0
"""Measured seconds of a launch of reference models."""


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

    Args:
        options: Those of the script.
        models: Names of reference models.
        changes: Values that replace them.

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
