"""`hvdprof selftest` and `inject`: faults of known size, to see whether they are found."""

import os
import shutil
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.api.options import OUTPUT, SelftestOptions
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.errors import (
    EnvironmentNotReadyError,
    SelftestFailedError,
    SweepIncompleteError,
    UsageError,
)
from hvdprof.report.format_names import RESULTS, Format
from hvdprof.units import counted, duration


def inject(
    command: Annotated[
        list[str],
        typer.Argument(
            help="The command after `--`: `hvdprof bench ...`, or the start of a script that calls "
            "hvdprof.collect.",
            show_default=False,
        ),
    ],
    fault: Annotated[
        list[str],
        typer.Option(
            help="A fault, such as sleep:phase=backward,rank=1,amount=20ms (docs/howto/inject.md); "
            "may be given several times.",
            show_default=False,
        ),
    ],
) -> None:
    """Run a command with faults in its ranks: delays whose place and size are known.

    The recordings of such a run name the faults, and the analysis reports them.
    """
    variables = api.fault_environment(fault)
    program = shutil.which(command[0])
    if program is None:
        raise EnvironmentNotReadyError(
            f"{command[0]} is not a program that can be started.", hint="Check the name and PATH."
        )
    for name in variables:
        if os.environ.get(name):
            raise UsageError(f"{name} is set already.", hint=f"unset {name}")
    for text in fault:
        sys.stderr.write(f"injecting {text}\n")
    # The arguments may hold secrets.
    sys.stderr.write(f"into {command[0]}\n")
    sys.stderr.flush()
    # In place of this process: signals and the exit code are those of the command.
    os.execve(program, command, {**os.environ, **variables})


@takes(SelftestOptions)
def selftest(
    options: SelftestOptions,
    silent: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=OUTPUT)
    ] = False,
    format_: Annotated[
        Format,
        format_option(RESULTS, "How to show the result.", show_default=True, panel=OUTPUT),
    ] = Format.TERMINAL,
) -> None:
    """Test hvdprof on this machine, or on --hosts: inject faults, and see whether it finds them.

    Seven short launches of an emulated model: one without a fault, one with a skewed clock, five in
    which one rank is late by 12 ms per step. Then the cost of the recorder; on a GPU also CUDA
    events against torch.profiler. With --live one launch, in which a rank is slow for a while.
    Exit code 0: all is judged correctly; 23: something is not; 6: a launch has no result.
    """
    from hvdprof.report.answers.selftest import selftest_answer

    measurement = api.SelftestMeasurement(options)
    if not silent:
        _announce(measurement)
    result = measurement.measure(_progress(measurement, silent=silent))
    selftest_answer(result).write(format_, sys.stdout)
    if not result.is_passed:
        raise SelftestFailedError(
            "The self-test failed.", hint="docs/howto/selftest.md: what to do about each result"
        )
    if result.unknown:
        raise SweepIncompleteError(f"{len(result.unknown)} launches have no result.")


def _announce(measurement: "api.SelftestMeasurement") -> None:
    sys.stderr.write(
        f"hvdprof: {counted(len(measurement.cases), 'launch')} of {measurement.num_ranks} ranks, "
        "about "
        f"{duration(measurement.estimate_s)}; no launch starts after "
        f"{duration(measurement.limit_s)}\n"
    )


def _progress(
    measurement: "api.SelftestMeasurement", *, silent: bool
) -> Callable[["api.CaseResult"], None]:
    number = 0

    def show(result: "api.CaseResult") -> None:
        nonlocal number
        number += 1
        if not silent:
            place = f"{number}/{len(measurement.cases)}"
            sys.stderr.write(f"  {place} {result.case.name}: {result.outcome}\n")

    return show
