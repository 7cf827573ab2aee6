"""`hvdprof tune`: try settings against the present one, and name what pays."""

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from hvdprof import api, units
from hvdprof.api.options import TuneOptions
from hvdprof.cli.measuring.choice import format_option, margin_of
from hvdprof.cli.measuring.idle import wait_for_idle
from hvdprof.cli.measuring.measure_and_report import announce_interruption
from hvdprof.cli.measuring.option_signature import takes
from hvdprof.cli.measuring.written_output import (
    OF_MEASUREMENT,
    folder_or_file,
    force_option,
    output_option,
    show_or_write,
)
from hvdprof.cli.progress.bench_progress import progress_for
from hvdprof.errors import HvdprofError
from hvdprof.report.format_names import TuningFormat

if TYPE_CHECKING:
    import hvdprof.api.tuning.measured_tuning as measured


@takes(TuneOptions)
def tune(
    options: TuneOptions,
    margin: Annotated[
        str, typer.Option(help="Smallest gain that matters, a share of the step time.")
    ] = "2%",
    format_: Annotated[
        TuningFormat | None,
        format_option(
            tuple(TuningFormat),
            "Format; the name of --output chooses it when not given, else terminal.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output_option(OF_MEASUREMENT.format(".txt, .json, .html or .md")),
    ] = None,
    force: Annotated[bool, force_option("Replace an existing file of --output.")] = False,
    silent: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Try settings of Horovod or DDP on a job; name those that pay, with their gain.

    The settings follow from a run of the present one. They race against it by turns, and what wins
    is measured anew. Line 1 is the verdict, line 2 the command to copy. `hvdprof tune FOLDER` shows
    an earlier result.
    """
    from hvdprof.report.answers.tuning import SUFFIXES, tuning_answer
    from hvdprof.report.formats import check_output, format_of_file

    is_shown = len(options.command) == 1 and Path(options.command[0]).is_dir()
    if not is_shown:
        folder, report = folder_or_file(report, SUFFIXES, options.output)
        options = replace(options, output=folder)
    if report is not None:
        check_output(report, overwrite=force)
    chosen = format_ or (
        format_of_file(report, SUFFIXES, "a tuning") if report else TuningFormat.TERMINAL
    )
    failure: HvdprofError | None = None
    if is_shown:
        tuning = api.load_tuning(options.command[0])
    else:
        measurement = api.TuningMeasurement(
            options,
            progress=progress_for(sys.stderr, silent=silent),
            shown=None if silent else tuning_progress(sys.stderr),
            margin=margin_of(margin),
        )
        if not silent:
            announce_tuning(measurement, sys.stderr)
        wait_for_idle(measurement.present, None if silent else sys.stderr)
        tuning, failure = measurement.measure()
        announce_interruption(failure)
    show_or_write(partial(tuning_answer(tuning).write, chosen), report, overwrite=force)
    if failure is not None:
        raise failure


def announce_tuning(tuning: "api.TuningMeasurement", stream: IO[str]) -> None:
    """Write what is tuned, where the runs are saved, and how long the first of them takes."""
    present = tuning.present
    stream.write(f"hvdprof: tuning {shlex.join(tuning.command)}")
    stream.write(f" on {tuning.num_ranks} ranks into {tuning.folder}\n")
    if present.has_secret:
        stream.write("! It seems to hold a secret; resume.json keeps it, for your eyes only.\n")
    plan, least_s = tuning.estimate()
    if tuning.is_resumed:
        stream.write("  The present setting is measured already.\n")
    else:
        length = f"; time {plan.basis}"
        if plan.planned_s is not None:
            length = f", about {units.duration(plan.planned_s)} ({plan.basis})"
        launches = units.counted(len(present.manifest.passes), "launch")
        stream.write(f"  First the present setting: {launches}{length}.\n")
    if math.isfinite(tuning.budget_s):
        stream.write(f"  Budget: {units.duration(tuning.budget_s)} in all.\n")
        if tuning.budget_s < least_s and not tuning.is_resumed:
            stream.write(
                f"  With a race it takes about {units.duration(least_s)} by this estimate: "
                "launches get fewer steps, or the predicted gains are shown.\n"
            )
        if tuning.runs_to_its_end:
            stream.write("! Without --num-steps each launch runs to the end of the script.\n")
    for warning in present.manifest.warnings:
        stream.write(f"! {warning}\n")


def tuning_progress(stream: IO[str]) -> "api.TuningProgress":
    """Writes lines about the progress of a tuning."""
    return _Lines(stream)


class _Lines:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._dropped: set[str] = set()

    def present_measured(
        self, analysis: "measured.RunAnalysis", choice: "measured.Choice", plan: "api.RacePlan"
    ) -> None:
        """The verdict on the present setting, what is tried, and how long it takes."""
        self._write(f"Present setting: {analysis.verdict.sentence}")
        for candidate in choice.candidates:
            predicted = ""
            if candidate.predicted is not None:
                predicted = f" Predicted {_gain(candidate.predicted)}."
            self._write(f"  {candidate.name}: {candidate.why}{predicted}")
        steps = "" if plan.fewer_steps is None else f"{plan.fewer_steps} steps per launch, "
        if choice.candidates:
            bound = ", the end of the budget" if plan.longest_s == plan.left_s else ""
            self._write(
                f"Race: {units.counted(plan.num_settings, 'setting')} beside the present one, "
                f"{steps}at most {plan.most_rounds} rounds, then a check of what wins; "
                f"{units.duration(plan.shortest_s)} to {units.duration(plan.longest_s)}{bound}."
            )

    def round_ended(self, number: int, standings: "Sequence[measured.RaceStanding]") -> None:
        """What was dropped after a round, and what leads."""
        for standing in standings:
            name = standing.candidate.name
            if standing.outcome is not None and name not in self._dropped:
                self._dropped.add(name)
                gain = "" if math.isnan(standing.gain.value) else f", {_gain(standing.gain)}"
                self._write(f"  Round {number}: {name} dropped, {standing.outcome}{gain}")
        racing = [standing for standing in standings if standing.outcome is None]
        known = [racer for racer in racing if not math.isnan(racer.gain.value)]
        if known:
            best = max(known, key=lambda racer: racer.gain.value)
            does = "leads" if best.gain.value > 0 else "is closest to the present setting"
            self._write(
                f"  Round {number}: {best.candidate.name} {does}, {_gain(best.gain)}; "
                f"{units.counted(len(racing), 'setting')} left"
            )

    def check_started(self, entries: "Mapping[str, tuple[measured.Candidate, ...]]") -> None:
        """What is measured anew."""
        names = [" + ".join(candidate.name for candidate in entry) for entry in entries.values()]
        self._write(f"Check against the present setting: {', '.join(names)}")

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


def _gain(gain: "measured.Estimate") -> str:
    from hvdprof.report.answers.tuning import gain_text

    return f"gain {gain_text(gain)}"
