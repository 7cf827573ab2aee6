"""Load a run directory or any files, make one of files, analyze them, write a report.

pandas and the analysis are imported at their first use: a file that is refused needs neither.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hvdprof import units
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest import load
from hvdprof.ingest.load import Kind, recognise
from hvdprof.ingest.load import ProgressCallback as ProgressCallback
from hvdprof.ingest.load import small_text as small_text
from hvdprof.rundir.layout import is_run_directory

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pandas as pd

    from hvdprof.api.analysis import Analysis
    from hvdprof.launch.plan.preflight import Sizes
    from hvdprof.model.run import Run as Run
    from hvdprof.model.standalone_files import FilesAnalysis as FilesAnalysis
    from hvdprof.model.standalone_files import ScalingOfText
    from hvdprof.model.tables.nsys_tables import NsysEvents

Paths = str | Path | Sequence[str | Path]


def load_run(
    paths: Paths,
    *,
    progress: ProgressCallback | None = None,
    np: "Sizes" = (),
    jobs: int | None = None,
) -> "Run":
    """What a run directory of ``hvdprof bench`` holds, or any files together.

    >>> run = load_run("runs/example")
    >>> int(run.steps.groupby("rank")["data_ns"].median().idxmax())
    1

    The tables of a run directory: ``segments`` (one row per model and toggles in one launch:
    pass_id, segment, mode, repeat, engine, model, size, ...), ``ranks`` (hostname, device, threads,
    clock), ``steps`` (start_ns, dur_ns, data_ns, forward_ns, backward_ns, blocked_ns, optimizer_ns,
    other_ns, samples, loss by rank and step), ``arrivals`` (ready_ns by tensor, rank and step) and
    ``events`` (Horovod's timeline). All times are ns on rank 0's monotonic clock. ``notes`` say
    what is missing or damaged; a run in progress loads with what is written so far.

    Files are recognised by their content: Horovod timelines (rows of ``events`` whose pass_id is
    the file, times on the file's own clock), recorder files, and text, whose parts become the
    tables of ``hvdprof.model.tables.log_tables``. ``tables`` maps the name of every table that has
    rows to its frame, ``table(name)`` returns a table with or without rows. The manifest of such a
    run holds only a name, and ``recorded`` is false.

    Args:
        paths: A run directory; or a file, a folder of files, a pattern, or several of these. A
            folder or archive with one run directory in it stands for this run.
        progress: Called with the file being read, the bytes read so far and the bytes of all files;
            never for tables that are in the cache.
        np: The numbers of ranks of files that state none, such as ``1,4``: one for each file in
            their order, or one for all.
        jobs: How many profiler traces are read at once, at most eight; as many as there are cores
            this process may use if None.

    Raises:
        UnreadableInputError: The paths hold nothing usable, or a run directory is among several.
        UsageError: ``np`` has another number of parts than there are files.
    """
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not np:
        return load.load_run(given, progress=progress, jobs=jobs)
    from hvdprof.launch.plan.preflight import stated_sizes

    return load.load_run(given, progress=progress, np=stated_sizes(np), jobs=jobs)


def is_nsys_export(path: Path) -> bool:
    """Whether a file is an export of Nsight Systems (SQLite), by its content.

    Raises:
        UnreadableInputError: It cannot be read.
    """
    return load.recognise(path).kind == load.Kind.NSYS


def nsys_events(path: Path) -> "AbstractContextManager[NsysEvents]":
    """Kernels and NVTX ranges of an export of Nsight Systems, read while they are used.

    Times are ns on the clock of the export; see ``NsysEvents``.

    Raises:
        UnreadableInputError: It is damaged, or holds neither kernels nor NVTX ranges.
    """
    return load.nsys_events(path)


def analyze_files(run: "Run") -> "FilesAnalysis":
    """The analysis of standalone files: a page of facts per file, and tables made of all files.

    >>> analyze_files(load_run("rates.csv")).throughput_scaling["efficiency"].round(3).tolist()
    [1.0, 0.95, 0.9]

    ``throughput_scaling`` holds the efficiency of every series of throughputs against its smallest
    number of ranks (ratio 0..1); single numbers have no interval, the lines on iterations of
    training logs give one. ``unanswered`` of a page names the questions that the file cannot
    answer, each with a command whose result can.

    Args:
        run: A run of ``load_run`` whose ``recorded`` is false.
    """
    from hvdprof.analyze.files import file_analysis

    return file_analysis.analyze_files(run)


def scaling_of_text(
    lines: Iterable[str], *, name: str = "table", unit: str | None = None, strong: bool = False
) -> "ScalingOfText":
    """The scaling efficiency of speeds that were measured elsewhere.

    >>> scaling_of_text(["ranks,samples/s", "1,100", "2,190"]).scaling["efficiency"].tolist()
    [1.0, 0.95]

    Args:
        lines: A table of numbers of ranks and speeds as CSV, Markdown or pairs; rows of one size
            are repeats.
        name: The name of the table in messages.
        unit: Unit of the speeds: samples/s, steps/s, s/step, ms/step or speed-up. When not given,
            the name of the column decides; columns without names hold samples/s.
        strong: Strong scaling: a step is the same work at every size.

    Raises:
        UsageError: No unit has that name.
        UnreadableInputError: The table holds fewer than two sizes.
    """
    from hvdprof.analyze.scaling.scaling_verdict import scaling_verdicts
    from hvdprof.analyze.scaling.throughput_scaling import throughput_scaling
    from hvdprof.ingest.load import SAMPLES_PER_S, read_scaling_text
    from hvdprof.model.standalone_files import ScalingOfText

    text = read_scaling_text(lines, name=name, unit=unit, strong=strong)
    scaling = throughput_scaling(text.throughput, repeats=True)
    if text.unit != SAMPLES_PER_S:
        # Steps/s and speed-ups compare sizes; they do not contain samples/s.
        scaling = scaling.assign(samples_per_s=float("nan"))
    return ScalingOfText(scaling, scaling_verdicts(scaling), text.notes)


def scaling_of_files(
    paths: Paths, *, progress: ProgressCallback | None = None, np: "Sizes" = ()
) -> "ScalingOfText":
    """The scaling efficiency of a job, from the files of several rank counts together.

    >>> scaling_of_files("rates.csv").scaling["efficiency"].round(3).tolist()
    [1.0, 0.95, 0.9]

    The lines on iterations in logs of Megatron and NeMo give every size a 95 % interval that takes
    their autocorrelation into account. Files of one size are repeats.

    Args:
        paths: Logs, tables and outputs that state throughputs; folders of them, or patterns.
        progress: As for ``load_run``.
        np: As for ``load_run``.

    Raises:
        UnreadableInputError: No series of throughputs in them has two sizes.
    """
    from hvdprof.analyze.files.joint_verdict import scaling_of_run
    from hvdprof.model.tables.log_tables import THROUGHPUT

    run = load_run(paths, progress=progress, np=np)
    found = scaling_of_run(run)
    if found.scaling.empty:
        sizes = ", ".join(f"np={size}" for size in sorted(set(run.table(THROUGHPUT.name)["np"])))
        raise UnreadableInputError(
            f"Throughputs at two rank counts or more are needed; found {sizes or 'none'}.",
            hint=f"See how a run directory scaled: hvdprof analyze {run.folder}"
            if run.recorded
            else "Give the logs of several rank counts together. State the ranks of each with --np "
            "1,4 where they and their names do not. Logs of Megatron and NeMo need iteration "
            "lines and the global batch size.",
        )
    return found


def all_tables(run: "Run") -> "dict[str, pd.DataFrame]":
    """The tables of a run and of its analysis that have rows, by name, in the order of the docs.

    >>> "waterfall" in all_tables(load_run("runs/example"))
    True

    These are what ``hvdprof convert`` writes and ``hvdprof sql`` queries.
    """
    from hvdprof.model.table_catalogue import TABLES

    tables = dict(run.tables)
    if run.recorded:
        tables |= analyze_run(run).tables
    else:
        tables |= analyze_files(run).derived
    return {table.name: tables[table.name] for table in TABLES if len(tables.get(table.name, ()))}


def analyze_run(
    run: "Run | str | Path", *, price: float | None = None, progress: ProgressCallback | None = None
) -> "Analysis":
    """The finished analysis of a run.

    >>> analysis = analyze_run("runs/example")
    >>> print(analysis.verdict.headline)
    ddp_script on 2 ranks under DDP: 171 ± 4 samples/s. Largest loss: straggler (rank 1, ...
    >>> analysis.scaling[["np", "samples_per_s"]].round().to_dict("records")
    [{'np': 2, 'samples_per_s': ...}]

    ``verdict`` is the answer in at most three sentences with its numbers and a caveat. ``scaling``
    has one row per cell (model, np, engine, compression, reduction, batch_size) with samples_per_s,
    step_time_median_ns, efficiency, blocked_share, trace_overhead, final_loss and the ends of their
    95 % intervals (``_low``, ``_high``; ratios 0..1, NaN where unknown). ``losses`` has one row per
    cell and part of the step (part, lost_ns, lost_share), ``launches`` one per launch (num_steps,
    step_time_ns, num_effective_steps, drift, ...), ``job_steps`` one per step of the job (end_ns,
    dur_ns, steady). ``findings`` has one row per problem with title, evidence, cost, potential gain
    and action. ``skipped``, ``failed`` and ``warnings`` say what was not measured and what not to
    trust.

    Args:
        run: A run of ``load_run``, or the run directory.
        price: Of a GPU, or of a rank that computes on none, per hour; that of the run, else
            ``HVDPROF_PRICE``, when not given. The verdict then says what its largest loss costs.
        progress: As for ``load_run``; never called for an analysis that is in the cache.

    Raises:
        UnreadableInputError: The path is no run directory.
        UsageError: The price is no number, or negative.
    """
    # Importing the analysis of runs takes longer than reading a small file.
    from hvdprof.api.analysis import Analysis

    if isinstance(run, str | Path) and is_run_directory(Path(run)):
        from hvdprof.api.cached_analysis import cached_analysis

        return Analysis.of(cached_analysis(Path(run), price, progress))
    from hvdprof.analyze import pipeline

    loaded = load_run(run, progress=progress) if isinstance(run, str | Path) else run
    if loaded is not run and not loaded.recorded:
        raise UnreadableInputError(
            f"{run} is no run directory.", hint="analyze_files(load_run(PATH)) is for other files."
        )
    return Analysis.of(pipeline.analyze_run(loaded, price))


def slow_hint(file: Path) -> str:
    """How to read a file faster; empty for files that are read as fast as this version can.

    Only large files are opened, and only their ends are read.

    Raises:
        UnreadableInputError: A large file cannot be read.
    """
    if refusal := load.numba_refusal():
        return refusal
    if not file.is_file() or not load.is_slow(file) or recognise(file).kind != Kind.TIMELINE:
        return ""
    size = units.byte_size(file.stat().st_size)
    return f"{file} has {size} and is read without compiled code: {load.SLOW_HINT}"


def numba_refusal() -> str:
    """Why numba could not be used although it is installed; empty where it could be."""
    return load.numba_refusal()
