"""`hvdprof analyze`: the finished analysis of a run directory or of any files."""

import sys
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from hvdprof import api
from hvdprof.api.cached_analysis import print_cached
from hvdprof.cli.measuring.choice import format_option, price_option
from hvdprof.cli.measuring.chosen_run import chosen_paths
from hvdprof.cli.measuring.written_output import Render, force_option, output_option, show_or_write
from hvdprof.errors import InconclusiveError, RegressedError, UsageError
from hvdprof.report.format_names import FILES_READ, GATE_SUFFIXES, GATES, AnalysisFormat

if TYPE_CHECKING:
    from hvdprof.api.analysis import Analysis, LimitResult
    from hvdprof.api.runs import FilesAnalysis, Run
    from hvdprof.report.formats import Reporter


_ALONE = "Omit the paths and all options but --output and --force."


def analyze(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help=f"Run directory, or files: {FILES_READ}; folders and archives of them; - for "
            "standard input; the newest run in ./runs when not given.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        AnalysisFormat | None,
        format_option(
            tuple(AnalysisFormat),
            "Format; the name of --output chooses it when not given, else terminal. markdown, "
            "junit and github show what became of --fail-on; json-schema describes json, without "
            "any PATH.",
        ),
    ] = None,
    output: Annotated[Path | None, output_option()] = None,
    force: Annotated[bool, force_option()] = False,
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
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="LIMIT",
            help="Exit with 20 if a cell is beyond a limit by its whole 95 % interval, such as "
            "`efficiency<80%`, `straggler>10%`, `exposed_communication>25%`, and with 21 if that "
            "is undecided. Files decide `efficiency` alone. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    np: Annotated[
        str | None,
        typer.Option(
            "--np",
            "-np",
            help="Ranks of the jobs whose files state none: one number for each file in their "
            "order, such as 1,4, or one for all.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Profiler traces or logs that are read at once, at most 8; as many as there are "
            "cores when not given.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[float | None, price_option()] = None,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit with 0 if it is undecided.")
    ] = False,
) -> None:
    """Report how well a run scaled, what cost most, and how reliable the numbers are.

    Needs the run directory alone: no torch, no Horovod, not the machine of the run. Other files
    are recognised by their content; the result names the kind of each file, its facts, and the
    questions that it cannot answer.
    """
    if format_ == AnalysisFormat.JSON_SCHEMA:
        others = (paths, section, fail_on, np, jobs, price, allow_inconclusive)
        _write_schema(output, overwrite=force, is_alone=not any(others))
        return
    _check_limits(is_asked=bool(fail_on), allow_inconclusive=allow_inconclusive)
    paths = chosen_paths(paths, "hvdprof analyze RUN")
    of_run = len(paths) == 1 and api.is_run_directory(paths[0])
    gate = _gate_of(format_, output, is_asked=bool(fail_on))
    if np and of_run:
        raise UsageError("--np is for files; a run directory states its ranks.", hint="Omit it.")
    if jobs and of_run:
        raise UsageError("--jobs is for files, not for a run directory.", hint="Omit it.")
    if section:
        if fail_on:
            raise UsageError("--fail-on and --section exclude each other.", hint="Run it twice.")
        _print_sections(paths, section, is_terminal=of_run and not (format_ or output))
        return
    if of_run and not (format_ or output or fail_on):
        print_cached(paths[0], price, sys.stdout, partial(_print_run, paths[0], price))
        return
    if gate is None and (of_run or output is not None):
        # A format that is not known is refused before anything is read.
        _reporter(format_, output)
    from hvdprof.cli.progress.load_progress import load_progress

    with load_progress(paths) as progress:
        run: Run | Path = paths[0]
        if not of_run:
            run = api.load_run(paths, progress=progress, np=np or (), jobs=jobs)
        # An archive may hold a run directory.
        if isinstance(run, Path) or run.recorded:
            analysis = api.analyze_run(run, price=price, progress=progress)
            results = api.limit_results(analysis, fail_on or [])
            render = (
                _rendered_limits(analysis, results, gate)
                if gate
                else _rendered_run(analysis, format_, output)
            )
        else:
            files = api.analyze_files(run)
            results = api.limit_results(files, fail_on or [])
            render = _rendered_files(files, format_, output)
    show_or_write(render, output, overwrite=force)
    _raise_for(results, allow_inconclusive=allow_inconclusive)


def _print_run(run: Path, price: float | None, stream: IO[str]) -> None:
    # Modules of other formats take as long as the smallest run.
    from hvdprof.cli.progress.load_progress import load_progress
    from hvdprof.report.terminal.terminal_report import TerminalReporter

    with load_progress([run]) as progress:
        analysis = api.analyze_run(run, price=price, progress=progress)
    TerminalReporter().render(analysis, stream)


def _write_schema(output: Path | None, *, overwrite: bool, is_alone: bool) -> None:
    from hvdprof.report.answers.json_schema import json_schema
    from hvdprof.report.json_values import write_json

    if not is_alone:
        raise UsageError("--format json-schema describes every analysis.", hint=_ALONE)
    show_or_write(partial(write_json, json_schema()), output, overwrite=overwrite)


def _check_limits(*, is_asked: bool, allow_inconclusive: bool) -> None:
    if allow_inconclusive and not is_asked:
        raise UsageError("--allow-inconclusive is for --fail-on.", hint="Omit it, or add a limit.")


def _raise_for(results: "tuple[LimitResult, ...]", *, allow_inconclusive: bool) -> None:
    """Print what became of each limit, and end with the exit code of the worst.

    Raises:
        RegressedError: One failed.
        InconclusiveError: One is undecided, and this is to fail.
    """
    for result in results:
        typer.echo(f"hvdprof: {result.sentence}", err=True)
    outcomes = [str(result.outcome) for result in results]
    failed, undecided = outcomes.count("failed"), outcomes.count("undecided")
    if failed:
        raise RegressedError(f"{failed} of {len(outcomes)} limits failed.")
    if undecided and not allow_inconclusive:
        raise InconclusiveError(
            f"{undecided} of {len(outcomes)} limits undecided.",
            hint="Measure more launches (--repeats), or add --allow-inconclusive.",
        )


def _gate_of(
    format_: AnalysisFormat | None, output: Path | None, *, is_asked: bool
) -> AnalysisFormat | None:
    """The format that shows limits alone, if that is wanted.

    Raises:
        UsageError: It is named, and there are no limits.
    """
    if format_ in GATES and not is_asked:
        raise UsageError(
            f"--format {format_} shows what became of --fail-on.",
            hint="Add --fail-on 'efficiency<80%', or run hvdprof report RUN -o report.md.",
        )
    if format_ is not None or output is None or not is_asked:
        return format_ if format_ in GATES else None
    return GATE_SUFFIXES.get(Path(output.name.removesuffix(".gz")).suffix)


def _rendered_limits(
    analysis: "Analysis", results: "tuple[LimitResult, ...]", gate: AnalysisFormat
) -> Render:
    from hvdprof.report.ci_formats import render_limits

    return lambda file: render_limits(analysis, results, gate, file)


def _reporter(format_: AnalysisFormat | None, output: Path | None) -> "Reporter":
    from hvdprof.report.formats import reporter_for

    return reporter_for(format_ or output or AnalysisFormat.TERMINAL)


def _rendered_run(
    analysis: "Analysis", format_: AnalysisFormat | None, output: Path | None
) -> Render:
    reporter = _reporter(format_, output)
    return lambda file: reporter.render(analysis, file)


def _print_sections(paths: list[Path], names: list[str], *, is_terminal: bool) -> None:
    from hvdprof.cli.progress.load_progress import load_progress
    from hvdprof.report.terminal.table_section import print_sections, sections_of

    if not is_terminal:
        raise UsageError(
            "--section prints tables of one run directory in the terminal.",
            hint="hvdprof convert RUN -o FOLDER --format csv writes every table.",
        )
    with load_progress(paths) as progress:
        analysis = api.analyze_run(paths[0], progress=progress)
    print_sections(analysis, sections_of(analysis) if "all" in names else names, sys.stdout)


def _rendered_files(
    analysis: "FilesAnalysis", format_: AnalysisFormat | None, output: Path | None
) -> Render:
    from hvdprof.report.answers.files import files_answer

    chosen = format_ or _format_of(output)
    if chosen not in (AnalysisFormat.TERMINAL, AnalysisFormat.JSON):
        raise UsageError(
            f"{chosen.upper()} output is not supported for files.",
            hint="hvdprof convert PATH... -o FOLDER --format csv writes their tables.",
        )
    return partial(files_answer(analysis).write, chosen)


def _format_of(output: Path | None) -> AnalysisFormat:
    if output is None:
        return AnalysisFormat.TERMINAL
    from hvdprof.report.formats import reporter_for

    name = reporter_for(output).name
    if name not in (*AnalysisFormat,):
        raise UsageError(f"{output} cannot be written: its name chooses the format {name}.")
    return AnalysisFormat(name)
