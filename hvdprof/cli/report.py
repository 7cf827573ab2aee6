"""`hvdprof report`: the analysis as a document, or one figure as an image."""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hvdprof import api
from hvdprof.api.live import OF_FINISHED_RUNS, Summary, check_publish, publish
from hvdprof.cli.measuring.choice import format_option, price_option
from hvdprof.cli.measuring.chosen_run import chosen_paths
from hvdprof.cli.measuring.written_output import Render, show_or_write
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.errors import UsageError
from hvdprof.report.format_names import DOCUMENTS, Format

if TYPE_CHECKING:
    from hvdprof.api.analysis import Analysis
    from hvdprof.api.runs import Run

    Finish = Callable[[], Analysis]

_PDF = ".pdf"


def report(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="Run directory, or any file or folder; the newest run in ./runs when not given.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .html, .md or .pdf (printed by Chromium); with --figure .png, "
            ".svg or .pdf. Markdown goes to standard output when not given.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        format_option(DOCUMENTS, "Format of the report; chosen by the file name when not given."),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write only this figure, such as scaling, as an image.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Send numbers, verdict and HTML report of a run to "
            f"{', '.join(OF_FINISHED_RUNS)}; several times for several.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[float | None, price_option()] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write the analysis as one HTML file that opens offline, as Markdown or PDF, or one figure."""
    if to:
        if output is not None or format_ is not None or figure is not None:
            raise UsageError(
                "--to sends the HTML report: it takes no --output, --format or --figure.",
                hint="Write the file with a command of its own.",
            )
        _send(path, to, price, overwrite=force)
        return
    if figure is not None and (format_ or output is None):
        raise UsageError(
            "A figure is an image file: give --output, and no --format.",
            hint=f"hvdprof report RUN --figure {figure} -o {figure}.svg",
        )
    is_pdf = output is not None and output.suffix == _PDF and figure is None
    if is_pdf and format_ is Format.MARKDOWN:
        raise UsageError("A PDF is printed from HTML.", hint="Omit --format.")
    chosen = format_
    if output is not None and format_ is None:
        chosen = _format_of(output, is_figure=figure is not None, overwrite=force)
    if output is None and chosen is Format.HTML:
        raise UsageError("An HTML report needs a file.", hint="hvdprof report RUN -o report.html")
    (run,) = chosen_paths([path] if path else None, "hvdprof report RUN -o report.html")
    with load_progress([run]) as progress:
        given = run if api.is_run_directory(run) else api.load_run(run, progress=progress)
        finish = partial(api.analyze_run, given, price=price, progress=progress)
        if figure is not None and output is not None:
            _write_figure(given, finish, figure, output, overwrite=force)
            return
        render = _rendered(given, finish, chosen or Format.MARKDOWN)
    if is_pdf and output is not None:
        from hvdprof.report.document.figure_file import write_pdf

        write_pdf(render, output, overwrite=force)
        sys.stderr.write(f"Wrote {output}\n")
        return
    show_or_write(render, output, overwrite=force)


def _send(path: Path | None, to: list[str], price: float | None, *, overwrite: bool) -> None:
    from hvdprof.report.document.json_report import PREFIX, differing_ranks, flat_summary
    from hvdprof.report.formats import reporter_for, write_with

    (folder,) = chosen_paths([path] if path else None, f"hvdprof report RUN --to {to[0]}")
    check_publish(folder, to, overwrite=overwrite)
    with load_progress([folder]) as progress, tempfile.TemporaryDirectory() as place:
        run = api.load_run(folder, progress=progress)
        if not run.recorded:
            raise UsageError(
                "--to sends runs, not other files.",
                hint="hvdprof attach makes a run of the files of a job.",
            )
        analysis, page = api.analyze_run(run, price=price), Path(place) / "report.html"
        write_with(reporter_for(Format.HTML), analysis, page)
        verdict = f"{analysis.verdict.sentence} {analysis.verdict.caveat}".strip()
        texts = {f"{PREFIX}/verdict": verdict, f"{PREFIX}/slow_ranks": differing_ranks(analysis)}
        shown = {key: text for key, text in texts.items() if text}
        for name, where in publish(Summary(flat_summary(analysis), shown, page), folder, to):
            sys.stderr.write(f"Sent to {name}: {where}\n")


def _write_figure(
    run: "Run | Path", finish: "Finish", figure: str, output: Path, *, overwrite: bool
) -> None:
    from hvdprof.report.document.figure_file import write_figure

    if not isinstance(run, Path) and not run.recorded:
        raise UsageError(
            "Figures are made of runs, not of other files.",
            hint="hvdprof report PATH -o report.html writes all that files say.",
        )
    write_figure(finish(), figure, output, overwrite=overwrite)
    sys.stderr.write(f"Wrote {output}\n")


def _rendered(run: "Run | Path", finish: "Finish", chosen: Format) -> Render:
    from hvdprof.report.formats import reporter_for

    if not isinstance(run, Path) and not run.recorded:
        return _rendered_files(run, chosen)
    reporter, analysis = reporter_for(chosen), finish()
    return lambda file: reporter.render(analysis, file)


def _rendered_files(run: "Run", chosen: Format) -> Render:
    from hvdprof.report.answers.files import files_answer

    return partial(files_answer(api.analyze_files(run)).write, chosen)


def _format_of(output: Path, *, is_figure: bool, overwrite: bool) -> Format | None:
    if is_figure:
        from hvdprof.report.document.figure_file import check_image

        check_image(output, overwrite=overwrite)
        return None
    formats = {".html": Format.HTML, ".md": Format.MARKDOWN, _PDF: Format.HTML}
    if output.suffix not in formats:
        raise UsageError(
            f"A report cannot be written to {output}: its name ends in none of "
            f"{', '.join(formats)}.",
            hint="hvdprof analyze RUN -o FILE writes .json and .csv.",
        )
    return formats[output.suffix]
