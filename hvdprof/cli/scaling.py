"""``hvdprof scaling``: how well a job scales, from a table of ranks and speeds."""

import re
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.errors import UsageError
from hvdprof.report.format_names import RESULTS, Format

_PAIR = re.compile(r"\d+:\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""Ranks and speed as a word of the command line."""


def scaling(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...|-",
            help="A table of ranks and speeds as CSV, Markdown or `1:872 8:6679`; - for stdin. Or "
            "several files or a folder: logs of Megatron or NeMo at several rank counts.",
            show_default=False,
        ),
    ],
    unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of the second number: samples/s, steps/s, s/step, ms/step or speed-up; the "
            "name of its column when not given, else samples/s.",
            show_default=False,
        ),
    ] = None,
    strong: Annotated[
        bool,
        typer.Option(
            "--strong",
            help="Strong scaling: all ranks share one batch. Needed for steps/s and step times.",
        ),
    ] = False,
    np: Annotated[
        str | None,
        typer.Option(
            "--np",
            "-np",
            help="Numbers of ranks to predict from the table, such as 64,128: efficiency with 50 "
            "and 90 % bands in place of the report on the measured sizes. With several files: the "
            "ranks of each, in their order, where a file states none.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        Format,
        format_option(RESULTS, "How to show the result.", show_default=True),
    ] = Format.TERMINAL,
) -> None:
    """Report how well measured speeds scale: efficiency, serial fraction, warnings.

    Rows of one size are repeats; they give the efficiency its 95 % CI. The iteration lines of
    training logs give one, too: several logs of different rank counts are one curve.
    """
    from hvdprof.report.answers.files import scaling_answer, throughput_forecast_answer

    no_pairs = [word for word in files if not _PAIR.fullmatch(word)]
    are_pairs = not no_pairs
    if 0 < len(no_pairs) < len(files):
        problem = f"{no_pairs[0]!r} is no pair of ranks and speed."
        raise UsageError(problem, hint="hvdprof scaling 1:872 8:6679")
    if not are_pairs and (len(files) > 1 or Path(files[0]).is_dir()):
        _check_for_files(files, unit, strong=strong)
        paths = [Path(file) for file in files]
        with load_progress(paths) as progress:
            # As many numbers as files are theirs.
            of_files = np if np is not None and np.count(",") + 1 == len(paths) else ()
            found = api.scaling_of_files(paths, progress=progress, np=of_files)
        if np is not None and not of_files:
            raise _not_predicted(found.scaling.to_dict("records"), np)
        scaling_answer(found).write(format_, sys.stdout)
        return
    name = "standard input" if files == ["-"] else " ".join(files)
    lines = [name] if are_pairs else api.small_text(Path(files[0])).splitlines()
    if np is not None:
        forecast = api.predict_throughput(lines, np, name=name, unit=unit, strong=strong)
        throughput_forecast_answer(forecast).write(format_, sys.stdout)
        return
    found = api.scaling_of_text(lines, name=name, unit=unit, strong=strong)
    scaling_answer(found).write(format_, sys.stdout)


def _check_for_files(files: list[str], unit: str | None, *, strong: bool) -> None:
    if "-" in files:
        raise UsageError("Standard input is read alone, not beside files.", hint="Name a file.")
    if unit is not None or strong:
        raise UsageError(
            "--unit and --strong are for one table: logs state samples per second.",
            hint=f"hvdprof scaling {' '.join(files)}",
        )


def _not_predicted(rows: list[dict[Hashable, object]], np: str) -> UsageError:
    pairs = " ".join(f"{row['np']}:{row['samples_per_s']:.6g}" for row in rows)
    return UsageError(
        "--np predicts from one table; of several files it states the ranks, one number each.",
        hint=f"echo {pairs} | hvdprof scaling - --np {np}",
    )
