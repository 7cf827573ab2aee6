"""The tables that `hvdprof convert` writes and `hvdprof sql` queries."""

import functools
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.api.cached_communication import cached_communication
from hvdprof.api.runs import ProgressCallback, all_tables, analyze_files, load_run
from hvdprof.model.run import Run
from hvdprof.model.table_catalogue import TABLES
from hvdprof.model.tables.run_tables import JOB_STEPS
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS
from hvdprof.report.tables.table_files import Rows


def load_tables(
    paths: Sequence[str | Path], *, progress: ProgressCallback | None = None
) -> dict[str, Rows]:
    """All tables that have rows, by name, in the order of the docs.

    The tables of a large timeline that is loaded alone stay in their cache files: each is a
    ``CachedRows``, whose ``frames()`` are pandas frames of a piece each.

    Args:
        paths: A run directory, or files, folders of files and patterns.
        progress: Called with the file being read, the bytes read so far and the bytes of all
            files; while tables on communication are made, with executions instead of bytes.

    Raises:
        UnreadableInputError: The paths hold nothing usable.
    """
    run = load_run(paths, progress=progress)
    if not run.cached:
        return dict(all_tables(run))
    several = len(run.table(TIMELINES.name)) > 1
    tables = _of_several(run) if several else _of_one(run, progress or _silent)
    tables |= analyze_files(run).derived
    return {table.name: tables[table.name] for table in TABLES if len(tables.get(table.name, ()))}


def _silent(file: str, done: int, total: int) -> None:
    """Progress that no caller asked for."""


def _of_several(run: Run) -> dict[str, Rows]:
    steps, arrivals = JOB_STEPS.empty(), COLLECTIVE_ARRIVALS.empty()
    return {**run.tables, **communication_tables(run, steps, arrivals)}


def _of_one(run: Run, progress: ProgressCallback) -> dict[str, Rows]:
    ((file, cached),) = run.cached.items()
    size = run.table(TIMELINES.name)["np"].iloc[0]
    others = {table.name: run.table(table.name) for table in TABLES if table.name not in cached}
    num_ranks = None if pd.isna(size) else int(size)
    communication = cached_communication(file, cached, num_ranks, functools.partial(progress, file))
    return {**others, **cached, **communication}
