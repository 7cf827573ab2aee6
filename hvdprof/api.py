"""hvdprof from Python: load a run directory, analyze it, write a report.

    from pathlib import Path
    from hvdprof.api import analyze_run, load_run, write_report

    analysis = analyze_run(load_run(Path("runs/20261120-224841-bench")))
    print(analysis.verdict.sentence)
    write_report(analysis, Path("scaling.json"))

All tables are pandas frames whose columns, dtypes and units are declared in
``hvdprof.model.tables`` and listed in docs/tables.md.
"""

from pathlib import Path

from hvdprof.analyze import pipeline
from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.ingest import load
from hvdprof.model.run import Run, RunAnalysis, RunEntry
from hvdprof.report.registry import reporter_for, write_with
from hvdprof.rundir.layout import MANIFEST_NAME
from hvdprof.rundir.manifest import Manifest


def load_run(folder: Path) -> Run:
    """The run that a folder of ``hvdprof bench`` holds.

    The tables: ``segments`` (one row a model with its toggles in one launch: pass_id, segment,
    mode, repeat, engine, model, size, ...), ``ranks`` (hostname, device, threads, clock),
    ``steps`` (start_ns, dur_ns, data_ns, forward_ns, backward_ns, blocked_ns, optimizer_ns,
    other_ns, samples, loss by rank and step), ``arrivals`` (ready_ns by tensor, rank and step) and
    ``events`` (Horovod's timeline). All times are ns on rank 0's monotonic clock. ``notes`` say
    what is missing or damaged; a run in progress loads with what there is.

    Raises:
        UnreadableInputError: The folder holds no readable manifest.
    """
    return load.load_run(folder)


def analyze_run(run: Run) -> RunAnalysis:
    """The finished analysis of a run.

    ``verdict`` is the answer in one sentence with its numbers. ``scaling`` has one row a cell
    (model, np, engine, compression, reduction, batch_size) with samples_per_s, step_time_median_ns,
    efficiency, blocked_share, observer_cost, final_loss and the ends of their 95 % intervals
    (``_low``, ``_high``; ratios 0..1, NaN where unknown). ``losses`` has one row a cell and part of
    the step (part, lost_ns, lost_share); ``launches`` one a launch (num_steps, step_time_ns,
    num_effective_steps, drift, ...); ``job_steps`` one a step of the job (end_ns, dur_ns, steady).
    ``skipped``, ``failed`` and ``warnings`` say what was not measured and what not to trust.
    """
    return pipeline.analyze_run(run)


def write_report(
    analysis: RunAnalysis, path: Path, *, overwrite: bool = False, format: str | None = None
) -> None:
    """Write an analysis into a file, whole or not at all.

    Args:
        analysis: What to write.
        path: Where to; a name that ends in ``.gz`` is compressed.
        overwrite: Whether a file of that name may be replaced.
        format: Name of the format; chosen by the end of the file name where not given.

    Raises:
        UsageError: No format has that name, or such files.
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    write_with(reporter_for(format or path), analysis, path, overwrite=overwrite)


def list_runs(folder: Path) -> tuple[RunEntry, ...]:
    """The run directories in a folder, newest first; one that cannot be read says why.

    Raises:
        UnreadableInputError: The folder does not exist or cannot be listed.
    """
    try:
        manifests = sorted(folder.glob(f"*/{MANIFEST_NAME}")) if folder.is_dir() else None
    except OSError as error:
        raise UnreadableInputError(f"Could not list {folder}: {error.strerror}.") from error
    if manifests is None:
        raise UnreadableInputError(
            f"{folder} is not a folder.", hint="hvdprof bench makes it with its first run."
        )
    entries = [_entry(path.parent) for path in manifests]
    return tuple(sorted(entries, key=lambda entry: (entry.created_at, entry.name), reverse=True))


def _entry(folder: Path) -> RunEntry:
    try:
        manifest = Manifest.read(folder)
    except HvdprofError as error:
        return RunEntry(folder, folder.name, "", "", error.message)
    return RunEntry(folder, manifest.name, manifest.created_at, manifest.status, "")
