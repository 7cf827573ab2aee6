"""The tables that `hvdprof convert` writes and `hvdprof sql` queries."""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.analyze.communication.matched_collectives import bus_bandwidths, collectives
from hvdprof.analyze.communication.network import link_fit
from hvdprof.analyze.communication.tensor_sums import TensorSums
from hvdprof.analyze.ranks.waiting import costs_by_steps as costs_by_steps
from hvdprof.api.runs import Paths, ProgressCallback, analyze_files, analyze_run, load_run
from hvdprof.ingest.load import cached_pieces, release_pages
from hvdprof.model.cached_rows import CachedRows, LazyFrames
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.run import Run
from hvdprof.model.schema import Table
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.table_catalogue import (
    TABLES,
    DerivedTables,
    RecordedTables,
    TableAttribute,
    declared_table,
)
from hvdprof.model.tables.collective_tables import (
    COLLECTIVES,
    LINK_FIT,
    STEP_COMMUNICATION,
    TENSORS,
)
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS
from hvdprof.report.table_files import TableRows

_EXECUTIONS_AT_ONCE = 4096
"""Bounds memory: an execution has many uses, whose names are text while they are joined to it."""

Progress = Callable[[int, int], None]
_FOR_FIT = ("pass_id", "segment", "collective", "size_bytes", "transfer_ns", "warmup")
_EXECUTION_COLUMNS = (
    *("pass_id", "segment", "fusion_id", "collective", "start_ns", "dur_ns"),
    *("size_bytes", "transfer_ns"),
)


def cached_communication(
    file: str, cached: Mapping[str, CachedRows], num_ranks: int | None, progress: Progress
) -> dict[str, TableRows]:
    """COLLECTIVES, LINK_FIT, TENSORS and STEP_COMMUNICATION by name.

    They equal what ``analyze.communication`` makes in memory.

    Args:
        file: The path of the timeline as the caller wrote it, which is the ``pass_id`` of its rows.
        cached: Its tables by name.
        num_ranks: Ranks of the job; None where the timeline does not show them.
        progress: Called with the executions done and the executions in all; never where the tables
            are in the cache already.
    """
    ranks_of = {} if num_ranks is None else {(file, ""): num_ranks}
    pieces = functools.partial(_pieces, cached, ranks_of, progress)
    source = cached[EXECUTIONS.name].source
    rows = cached_pieces(COLLECTIVES, source, pieces)
    if rows is None:
        whole = COLLECTIVES.frame(pd.concat(list(pieces())))
        fit = link_fit(whole, ranks_of)
        return {COLLECTIVES.name: whole, LINK_FIT.name: fit, **_sums(source, cached)}
    measured = [piece[~piece["warmup"]] for piece in rows.frames(_FOR_FIT)]
    fit = link_fit(pd.concat(measured), ranks_of)
    return {COLLECTIVES.name: rows, LINK_FIT.name: fit, **_sums(source, cached)}


def _sums(source: Path, cached: Mapping[str, CachedRows]) -> dict[str, TableRows]:
    """TENSORS and STEP_COMMUNICATION, of one pass over the rows where they are not in the cache."""

    @functools.cache
    def made() -> TensorSums:
        sums = TensorSums()
        for executions, uses in _paired(cached):
            sums.add(executions, uses)
        return sums

    def from_cache(table: Table, rows: Callable[[], pd.DataFrame]) -> TableRows:
        cached_rows = cached_pieces(table, source, lambda: iter([rows()]))
        return rows() if cached_rows is None else cached_rows

    return {
        TENSORS.name: from_cache(TENSORS, lambda: made().tensors()),
        STEP_COMMUNICATION.name: from_cache(STEP_COMMUNICATION, lambda: made().steps()),
    }


def _pieces(
    cached: Mapping[str, CachedRows], ranks_of: Mapping[LaunchKey, int], progress: Progress
) -> Iterator[pd.DataFrame]:
    """COLLECTIVES piece by piece."""
    done = 0
    for executions, fused in _paired(cached):
        yield collectives(executions, fused, COLLECTIVE_ARRIVALS.empty(), ranks_of, {})
        done += len(executions)
        progress(done, len(cached[EXECUTIONS.name]))


def _paired(cached: Mapping[str, CachedRows]) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Some executions at a time with their uses, which are in the same order."""
    uses = cached[TENSOR_USES.name].frames()
    held = [next(uses)]
    for executions in _cut(cached[EXECUTIONS.name].frames()):
        first, last = executions["fusion_id"].min(), executions["fusion_id"].max()
        while held[-1]["fusion_id"].max() < last and (more := next(uses, None)) is not None:
            held.append(more)
        yield (
            executions,
            pd.concat([piece[piece["fusion_id"].between(first, last)] for piece in held]),
        )
        held = held[-1:]


def _cut(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        for start in range(0, max(len(frame), 1), _EXECUTIONS_AT_ONCE):
            yield frame[start : start + _EXECUTIONS_AT_ONCE]


class Tables(RecordedTables, DerivedTables, Mapping[str, TableRows]):
    """All tables of a run or of files that have rows: a mapping by name, and attributes.

    ``tables["events"]`` is a pandas frame, or ``CachedRows`` where it stays in its cache file;
    ``tables.events`` is a pandas frame always, and has no rows where the mapping lacks the table.
    """

    job_steps = TableAttribute()
    launches = TableAttribute()
    scaling = TableAttribute()
    losses = TableAttribute()
    notes = TableAttribute()
    throughput_scaling = TableAttribute()
    findings = TableAttribute()

    def __init__(self, tables: Mapping[str, TableRows]) -> None:
        self._tables = tables if isinstance(tables, LazyFrames) else dict(tables)

    def __getitem__(self, name: str) -> TableRows:
        """The rows of a table."""
        return self._tables[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is a table of a name; no file is read for it."""
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the docs."""
        return (table.name for table in TABLES if table.name in self._tables)

    def __len__(self) -> int:
        """The number of tables."""
        return len(self._tables)

    @property
    def row_counts(self) -> dict[str, int]:
        """The number of rows of every table, by name."""
        return {name: len(rows) for name, rows in self._tables.items()}

    def table(self, name: str) -> pd.DataFrame:
        """One table as a frame, without rows where there are none.

        Raises:
            UsageError: No table has that name.
        """
        rows = self._tables.get(name)
        if rows is None:
            return declared_table(name).empty()
        return rows if isinstance(rows, pd.DataFrame) else rows.frame()


def load_tables(paths: Paths, *, progress: ProgressCallback | None = None) -> Tables:
    """All tables that have rows, by name and as attributes, in the order of the docs.

    >>> tables = load_tables("runs/example")
    >>> int(tables.rank_costs.groupby("rank")["cost_ns"].sum().idxmax())
    1

    The tables of a large timeline that is loaded alone stay in their cache files: each is a
    ``CachedRows``, whose ``frames()`` are pandas frames of a piece each.

    Args:
        paths: A run directory; or a file, a folder of files, a pattern, or several of these.
        progress: Called with the file being read, the bytes read so far and the bytes of all
            files; while tables on communication are made, with executions instead of bytes.

    Raises:
        UnreadableInputError: The paths hold nothing usable.
    """
    run = load_run(paths, progress=progress)
    if run.recorded:
        return Tables(_of_run(run))
    return tables_of_files(analyze_files(run), progress=progress)


def tables_of_files(analysis: FilesAnalysis, *, progress: ProgressCallback | None = None) -> Tables:
    """All tables of standalone files and of their analysis, as ``load_tables`` gives them.

    Args:
        analysis: The finished analysis.
        progress: Called while tables on communication of a large timeline are made.
    """
    run = analysis.run
    tables: dict[str, TableRows] = {}
    if not run.cached:
        tables |= run.tables
    elif len(run.timelines) > 1:
        tables |= _of_several(run)
    else:
        tables |= _of_one(run, progress or _silent)
    tables |= analysis.derived
    return Tables(
        {table.name: tables[table.name] for table in TABLES if len(tables.get(table.name, ()))}
    )


def release_tables() -> None:
    """Take large tables that are mapped from files out of memory; what is used again comes back."""
    release_pages()


def large_executions(run: Run, pass_id: str) -> Iterator[pd.DataFrame] | None:
    """The executions of a timeline whose tables are in the cache, piece by piece.

    They have the columns of COLLECTIVES that need no joined uses of tensors: start, length,
    payload, transfer and busbw.

    Args:
        run: Standalone files.
        pass_id: The timeline.

    Returns:
        ``None`` where its tables are in memory.
    """
    if pass_id not in run.cached:
        return None
    size = run.timelines.loc[(run.timelines["pass_id"] == pass_id).to_numpy(bool), "np"].iloc[0]
    ranks_of = {} if pd.isna(size) else {(pass_id, ""): int(size)}
    pieces = run.cached[pass_id][EXECUTIONS.name].frames(_EXECUTION_COLUMNS)
    return (piece.assign(busbw_gb_per_s=bus_bandwidths(piece, ranks_of)) for piece in pieces)


def _of_run(run: Run) -> LazyFrames:
    """The tables of ``all_tables``; those that files have to be read for at their first use."""
    analysis = analyze_run(run)
    ready: dict[str, pd.DataFrame] = {}
    loaders = {}
    for table in TABLES:
        name = table.name
        holder = analysis if name in analysis.unread or len(analysis.table(name)) else run
        if name in holder.unread:
            loaders[name] = functools.partial(holder.table, name)
        elif len(frame := holder.table(name)):
            ready[name] = frame
    return LazyFrames(ready, loaders, {})


def _silent(file: str, done: int, total: int) -> None:
    """Progress that no caller asked for."""


def _of_several(run: Run) -> dict[str, TableRows]:
    steps, arrivals = JOB_STEPS.empty(), COLLECTIVE_ARRIVALS.empty()
    return {**run.tables, **communication_tables(run, steps, arrivals)}


def _of_one(run: Run, progress: ProgressCallback) -> dict[str, TableRows]:
    ((file, cached),) = run.cached.items()
    size = run.timelines["np"].iloc[0]
    others = {table.name: run.table(table.name) for table in TABLES if table.name not in cached}
    num_ranks = None if pd.isna(size) else int(size)
    communication = cached_communication(file, cached, num_ranks, functools.partial(progress, file))
    return {**others, **cached, **communication}
