"""`hvdprof compare`: whether one run is slower than another, and a gate for CI."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option
from hvdprof.errors import InconclusiveError, NotComparableError, RegressedError, UsageError
from hvdprof.report.format_names import ComparisonFormat

_FAIL_ON_OPEN = "inconclusive"


def compare(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_A",
            help="Run directory to compare with, or a table of ranks and speeds.",
            show_default=False,
        ),
    ],
    second: Annotated[
        Path, typer.Argument(metavar="RUN_B", help="The other run or table.", show_default=False)
    ],
    margin: Annotated[
        str,
        typer.Option(help="Largest change that does not matter: relative, or points of a ratio."),
    ] = "2%",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CONDITION",
            help="Exit with 20 if a metric is worse by more than this, such as `step_time>2%` or "
            "`efficiency<-2pt`; `inconclusive` exits with 21 if that is undecided. Can be given "
            "several times.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        ComparisonFormat | None,
        format_option(
            tuple(ComparisonFormat),
            "Format; the name of --output chooses it when not given, else terminal.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write instead of standard output; its name chooses the format.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Compare runs that are not comparable; replace an existing file of --output.",
        ),
    ] = False,
) -> None:
    """Compare two runs: regressed, improved, equal or inconclusive, and which cause moved.

    A change counts beyond the margin with 95 % confidence, by launch, corrected for the number of
    cells. Exit codes: 0; 20 if a condition of --fail-on failed, 21 undecided, 22 not comparable.
    """
    from hvdprof.report.comparison.comparison_formats import RENDERERS, comparison_format
    from hvdprof.report.formats import write_text

    conditions = fail_on or []
    chosen = format_ or (comparison_format(output) if output else ComparisonFormat.TERMINAL)
    comparison = api.compare(
        first,
        second,
        margin=_margin(margin),
        fail_on=[text for text in conditions if text.strip() != _FAIL_ON_OPEN],
        force=force,
    )
    if output is None:
        RENDERERS[chosen](comparison, sys.stdout)
    else:
        write_text(output, lambda file: RENDERERS[chosen](comparison, file), overwrite=force)
        sys.stderr.write(f"Wrote {output}\n")
    _raise_for(comparison, fails_open=any(text.strip() == _FAIL_ON_OPEN for text in conditions))


def _margin(text: str) -> float:
    number = text.strip().removesuffix("%").strip()
    try:
        return float(number) / 100
    except ValueError:
        raise UsageError(f"--margin {text!r} is not a percentage.", hint="--margin 2%") from None


def _raise_for(comparison: api.Comparison, *, fails_open: bool) -> None:
    """End with the exit code of the outcome: conditions that failed first."""
    failed = [one for one in comparison.gate if one.outcome is api.Outcome.REGRESSED]
    if failed:
        texts = "; ".join(f"{one.condition.text} by {', '.join(one.cells)}" for one in failed)
        raise RegressedError(f"The gate failed: {texts}.")
    if comparison.outcome is api.Outcome.NOT_COMPARABLE:
        raise NotComparableError(
            "The runs are not comparable.", hint="Add --force to compare them nevertheless."
        )
    judged = [one.outcome for one in comparison.gate] or [comparison.outcome]
    if fails_open and api.Outcome.INCONCLUSIVE in judged:
        raise InconclusiveError(
            "The comparison is inconclusive.", hint="Measure more launches of both runs."
        )
