"""`hvdprof analyze`: the finished analysis of a run directory or of any files."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.errors import UsageError
from hvdprof.report.format_names import ANALYSES, Format


def analyze(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Run directory, or timelines, logs and benchmark output.",
            show_default=False,
        ),
    ],
    format_: Annotated[
        Format | None,
        format_option(
            ANALYSES, "Format; the name of --output chooses it when not given, else terminal."
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
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    section: Annotated[
        list[str] | None,
        typer.Option(
            "--section",
            metavar="NAME",
            help="Print only this table of the analysis, such as caused_wait; `all` prints every "
            "table. Can be given several times.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Report how well a run scaled, what cost most, and how reliable the numbers are.

    Needs the run directory alone: no torch, no Horovod, not the machine of the run. Other files
    are recognised by their content; the result names the kind of each file, its facts, and the
    questions that it cannot answer.
    """
    of_run = len(paths) == 1 and api.is_run_directory(paths[0])
    if section:
        _print_sections(paths, section, is_terminal=of_run and not (format_ or output))
    elif of_run:
        _analyze_run(paths[0], format_, output, force=force)
    else:
        _analyze_files(paths, format_, output, force=force)


def _analyze_run(run: Path, format_: Format | None, output: Path | None, *, force: bool) -> None:
    from hvdprof.report.formats import reporter_for, write_with

    reporter = reporter_for(format_ or output or Format.TERMINAL)
    with load_progress([run]) as progress:
        analysis = api.analyze_run(api.load_run(run, progress=progress))
    if output is None:
        reporter.render(analysis, sys.stdout)
        return
    write_with(reporter, analysis, output, overwrite=force)
    sys.stderr.write(f"Wrote {output}\n")


def _print_sections(paths: list[Path], names: list[str], *, is_terminal: bool) -> None:
    from hvdprof.report.terminal.table_section import print_sections, sections_of

    if not is_terminal:
        raise UsageError(
            "--section prints tables of one run directory in the terminal.",
            hint="hvdprof convert RUN -o FOLDER --format csv writes every table.",
        )
    with load_progress(paths) as progress:
        analysis = api.analyze_run(api.load_run(paths[0], progress=progress))
    print_sections(analysis, sections_of(analysis) if "all" in names else names, sys.stdout)


def _analyze_files(
    paths: list[Path], format_: Format | None, output: Path | None, *, force: bool
) -> None:
    from hvdprof.report.formats import write_text
    from hvdprof.report.terminal.files_report import render_files, render_files_json

    renderers = {Format.TERMINAL: render_files, Format.JSON: render_files_json}
    chosen = format_ or _format_of(output)
    if chosen not in renderers:
        raise UsageError(
            f"{chosen.upper()} output is not supported for files.",
            hint="hvdprof convert PATH... -o FOLDER --format csv writes their tables.",
        )
    with load_progress(paths) as progress:
        analysis = api.analyze_files(api.load_run(paths, progress=progress))
    if output is None:
        renderers[chosen](analysis, sys.stdout)
        return
    write_text(output, lambda file: renderers[chosen](analysis, file), overwrite=force)
    sys.stderr.write(f"Wrote {output}\n")


def _format_of(output: Path | None) -> Format:
    if output is None:
        return Format.TERMINAL
    from hvdprof.report.formats import reporter_for

    name = reporter_for(output).name
    if name not in ANALYSES:
        raise UsageError(f"{output} cannot be written: its name chooses the format {name}.")
    return Format(name)
