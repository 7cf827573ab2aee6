"""`hvdprof selftest`: faults of known size in short launches, to see whether they are found."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.api.options import OUTPUT, SelftestOptions
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.errors import SelftestFailedError, SweepIncompleteError
from hvdprof.report.format_names import RESULTS, Format
from hvdprof.units import duration


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
    events against torch.profiler. Exit code 0: all is judged correctly; 23: something is not; 6: a
    launch has no result.
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
        f"hvdprof: {len(measurement.cases)} launches of {measurement.num_ranks} ranks, about "
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
