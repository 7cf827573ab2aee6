"""`hvdprof compare`: whether one run or variant is slower than another, and a gate for CI."""

import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Annotated

import typer

from hvdprof import api
from hvdprof.api.options import CompareOptions
from hvdprof.cli.measuring.choice import format_option, margin_of
from hvdprof.cli.measuring.chosen_run import chosen_pair
from hvdprof.cli.measuring.given_options import given_options
from hvdprof.cli.measuring.idle import wait_for_idle
from hvdprof.cli.measuring.measure_and_report import announce_interruption
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.cli.measuring.written_output import (
    NAMED_OUTPUT,
    folder_or_file,
    force_option,
    output_option,
    show_or_write,
)
from hvdprof.cli.progress.bench_progress import progress_for
from hvdprof.errors import (
    HvdprofError,
    InconclusiveError,
    InterruptedRunError,
    NotComparableError,
    RegressedError,
    StorageError,
    UnreadableInputError,
    UsageError,
)
from hvdprof.report.format_names import ComparisonFormat

_FAIL_ON_OPEN = "inconclusive"


@takes(CompareOptions)
def compare(
    options: CompareOptions,
    context: typer.Context,
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
            "`efficiency<-2pt`, and with 21 if that is undecided; `inconclusive` without a metric "
            "for the comparison itself. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit with 0 if it is undecided.")
    ] = False,
    format_: Annotated[
        ComparisonFormat | None,
        format_option(
            tuple(ComparisonFormat),
            "Format; the name of --output chooses it when not given, else terminal.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output_option(
            f"{NAMED_OUTPUT} With --run and another name: the folder for both run directories."
        ),
    ] = None,
    force: Annotated[
        bool,
        force_option("Compare runs that are not comparable; replace an existing file of --output."),
    ] = False,
    silent: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Compare two runs, or measure and compare two variants: regressed, improved or equal.

    A change counts beyond the margin with 95 % confidence, by launch, corrected for the number of
    cells. Exit codes: 0; 20 if a condition of --fail-on failed, 21 undecided, 22 not comparable.
    """
    from hvdprof.report.answers.comparison_formats import SUFFIXES, comparison_answer
    from hvdprof.report.formats import check_output, format_of_file

    if options.run:
        folder, report = folder_or_file(report, SUFFIXES, options.output)
        options = replace(options, output=folder)
    if report is not None:
        check_output(report, overwrite=force)
    chosen = format_ or (
        format_of_file(report, SUFFIXES, "a comparison") if report else ComparisonFormat.TERMINAL
    )
    conditions = [text for text in fail_on or [] if text.strip() != _FAIL_ON_OPEN]
    failure: HvdprofError | None = None
    if options.run:
        progress = progress_for(sys.stderr, silent=silent)
        pair = api.PairedMeasurement(
            options, progress=progress, margin=margin_of(margin), fail_on=conditions, force=force
        )
        if not silent:
            _announce_pair(pair, sys.stderr)
        wait_for_idle(pair.variants[0], None if silent else sys.stderr)
        failure = _measured(pair)
        try:
            comparison = pair.compare()
        except (NotComparableError, UnreadableInputError):
            if failure is None:
                raise
            raise failure from None
        announce_interruption(failure)
    else:
        first, second = _two_paths(options, context)
        comparison = api.compare(
            first, second, margin=margin_of(margin), fail_on=conditions, force=force
        )
    answer = comparison_answer(comparison)
    show_or_write(partial(answer.write, chosen), report, overwrite=force)
    if failure is not None:
        raise failure
    _raise_for(comparison, fails_open=bool(fail_on) and not allow_inconclusive)


def _measured(pair: "api.PairedMeasurement") -> HvdprofError | None:
    """Measure both variants; a failure is returned where something can be compared."""
    try:
        return pair.measure()
    except (InterruptedRunError, StorageError) as error:
        if not all(api.is_run_directory(variant.folder) for variant in pair.variants):
            raise
        error.hint = f"What was measured is in {pair.folder}."
        return error


def _two_paths(options: CompareOptions, context: typer.Context) -> tuple[Path, Path]:
    """The two runs of a comparison that measures nothing.

    Raises:
        UnreadableInputError: A folder holds too many.
        UsageError: There are not two, or options of a measurement are given without ``--run``.
    """
    allowed = {
        "command",
        "margin",
        "fail_on",
        "allow_inconclusive",
        "format_",
        "report",
        "force",
        "silent",
    }
    given = given_options(context, allowed)
    if given:
        raise UsageError(
            f"{', '.join(given)} is for a comparison that measures.",
            hint="Add --run and a script: hvdprof compare --run --np 2 -- python train.py",
        )
    return chosen_pair([Path(word) for word in options.command])


def _raise_for(comparison: "api.Comparison", *, fails_open: bool) -> None:
    """End with the exit code of the outcome: conditions that failed first."""
    failed = [
        result for result in comparison.gate if result.outcome is api.ComparisonOutcome.REGRESSED
    ]
    if failed:
        texts = "; ".join(
            f"{result.condition.text} by {', '.join(result.cells)}" for result in failed
        )
        raise RegressedError(f"The gate failed: {texts}.")
    if comparison.outcome is api.ComparisonOutcome.NOT_COMPARABLE:
        raise NotComparableError(
            "The runs are not comparable.", hint="Add --force to compare them nevertheless."
        )
    unknown = [
        result
        for result in comparison.gate
        if result.outcome is api.ComparisonOutcome.NOT_COMPARABLE
    ]
    if unknown:
        names = ", ".join(result.condition.metric.title for result in unknown)
        raise NotComparableError(
            f"The gate cannot be judged: no cell of both runs has {names}.",
            hint="hvdprof analyze RUN shows what a run has; efficiency needs a baseline: --np 1,2.",
        )
    judged = {result.condition.text: result.outcome for result in comparison.gate}
    judged = judged or {"the comparison": comparison.outcome}
    undecided = [
        text for text, found in judged.items() if found is api.ComparisonOutcome.INCONCLUSIVE
    ]
    if fails_open and undecided:
        raise InconclusiveError(
            f"Inconclusive: {'; '.join(undecided)}.",
            hint="Measure more launches of both runs, or add --allow-inconclusive.",
        )


def _announce_pair(pair: "api.PairedMeasurement", stream: IO[str]) -> None:
    """Write where both variants are measured, their commands, and the most launches of each."""
    stream.write(f"hvdprof: measuring two variants into {pair.folder}\n")
    for measurement in pair.variants:
        stream.write(f"  {measurement.folder.name}: {shlex.join(measurement.shown_command)}\n")
        if measurement.has_secret:
            stream.write("! It seems to hold a secret; resume.json keeps it, for your eyes only.\n")
    repeats, sizes = pair.most_repeats, pair.variants[0].settings.sizes
    stream.write(
        f"  At most {repeats} launches of each at np={','.join(map(str, sizes))}, by turns "
        f"(A B B A); a decision after {' or '.join(map(str, pair.looks))} ends it.\n"
    )
    for measurement in pair.variants:
        for warning in measurement.manifest.warnings:
            stream.write(f"! {measurement.folder.name}: {warning}\n")
