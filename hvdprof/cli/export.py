"""`hvdprof export`: one pass of a run as a trace for viewers (Chrome) or simulators (Chakra)."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.cli.measuring.choice import format_option
from hvdprof.cli.measuring.chosen_run import chosen_paths
from hvdprof.cli.progress.load_progress import load_progress
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.report.format_names import TraceFormat

_ENDINGS = (".json", ".json.gz")


def export(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File to write, .json or .json.gz; for chakra the first part of the names: "
            "PREFIX.RANK.et.",
            show_default=False,
        ),
    ],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Run directory; dumps of PyTorch's Flight Recorder or verbose logs of NCCL's "
            "Inspector, of all ranks of a job; or one SQLite export of Nsight Systems. "
            "The newest run in ./runs when not paths.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        TraceFormat,
        format_option(
            tuple(TraceFormat),
            "chrome for Perfetto and chrome://tracing; chakra is the step graph of every rank, for "
            "simulators such as ASTRA-sim; speedscope (speedscope.app) and folded (flamegraph.pl) "
            "are flame graphs of sampled lines.",
            show_default=True,
        ),
    ] = TraceFormat.CHROME,
    pass_id: Annotated[
        str | None,
        typer.Option(
            "--pass",
            help="Id of the pass; the trace pass of the most ranks when not given. Of dumps: the "
            "job.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Only this model; else all of the pass.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a Chrome trace: every rank's steps and Horovod's own timeline on one clock.

    Open it at ui.perfetto.dev or chrome://tracing. Needs the run directory alone.
    With --format chakra, write the graph of the measured steps as Chakra execution traces. Dumps
    of the Flight Recorder, and logs of NCCL's Inspector with kernel times, become one lane per rank
    and process group. With --format speedscope or folded, write the sampled lines of code of a
    pass as a flame graph. An export of Nsight Systems becomes lanes of NVTX ranges, computation
    and NCCL kernels by process.
    """
    if format_ is TraceFormat.CHROME and not output.name.endswith(_ENDINGS):
        raise UsageError(
            f"A trace cannot be written to {output}: its name ends in neither "
            f"{' nor '.join(_ENDINGS)}.",
            hint="hvdprof export RUN -o trace.json.gz",
        )
    paths = chosen_paths(paths, "hvdprof export RUN -o trace.json.gz")
    if len(paths) > 1 or _is_something_else(paths[0]):
        _export_files(paths, output, format_, pass_id, model, force=force)
        return
    if format_ is TraceFormat.CHROME:
        from hvdprof.report.chrome.chrome_trace import ChromeTraceReporter
        from hvdprof.report.formats import write_with

        with load_progress(paths) as progress:
            analysis = api.analyze_run(paths[0], progress=progress)
        reporter = ChromeTraceReporter(pass_id=pass_id, model=model)
        write_with(reporter, analysis, output, overwrite=force)
        _say_where(output)
        return
    with load_progress(paths) as progress:
        loaded = api.load_run(paths[0], progress=progress)
    if format_ is TraceFormat.CHAKRA:
        from hvdprof.report.chakra_trace import write_chakra

        paths = write_chakra(loaded, output, pass_id, model, overwrite=force)
        many = f" to {paths[-1].name}" if len(paths) > 1 else ""
        sys.stderr.write(f"Wrote {paths[0]}{many}; simulators take the prefix {output}\n")
        return
    from hvdprof.report.flame_graph import write_flames

    write_flames(loaded, output, format_, (pass_id, model), overwrite=force)
    viewer = "speedscope.app" if format_ is TraceFormat.SPEEDSCOPE else "flamegraph.pl"
    sys.stderr.write(f"Wrote {output}, for {viewer}\n")


def _export_files(
    paths: list[Path],
    output: Path,
    format_: TraceFormat,
    job: str | None,
    model: str | None,
    *,
    force: bool,
) -> None:
    """The collectives of files that are no run directory."""
    if format_ is not TraceFormat.CHROME or model is not None:
        raise UsageError(
            "--model and formats other than chrome need a run directory.",
            hint="`hvdprof attach` makes one of timelines, profiler traces, NCCL logs and output.",
        )
    if any(path.is_file() and api.is_nsys_export(path) for path in paths):
        _export_nsys(paths, output, job, force=force)
        return
    from hvdprof.report.chrome.chrome_trace import write_trace
    from hvdprof.report.chrome.collective_trace import collective_content
    from hvdprof.report.formats import write_text

    with load_progress(paths) as progress:
        run = api.load_run(paths, progress=progress)
    content = collective_content(run, job)
    write_text(output, lambda file: write_trace(content, file), overwrite=force)
    _say_where(output)


def _export_nsys(paths: list[Path], output: Path, job: str | None, *, force: bool) -> None:
    if len(paths) > 1 or job is not None:
        raise UsageError(
            "An export of Nsight Systems is exported alone, and without --pass: its events are on "
            "a clock of its own.",
            hint="Export each file by itself: hvdprof export REPORT.sqlite -o trace.json.gz",
        )
    from hvdprof.report.chrome.chrome_trace import write_trace
    from hvdprof.report.chrome.collective_trace import nsys_content
    from hvdprof.report.formats import check_output, write_text

    check_output(output, overwrite=force)
    with api.nsys_events(paths[0]) as source:
        content = nsys_content(source, paths[0].name)
        write_text(output, lambda file: write_trace(content, file), overwrite=force)
    _say_where(output)


def _say_where(output: Path) -> None:
    sys.stderr.write(f"Wrote {output}; open it at ui.perfetto.dev or chrome://tracing\n")


def _is_something_else(run: Path) -> bool:
    """Whether there is something that is no run directory."""
    try:
        return run.exists() and not api.is_run_directory(run)
    except OSError as error:
        raise UnreadableInputError(f"{run} cannot be read: {error.strerror or error}.") from error
