"""The tables that `hvdprof convert` writes and `hvdprof sql` queries."""

import functools
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hvdprof import api
from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.cli.kept_communication import kept_communication
from hvdprof.cli.progress.load_progress import Told
from hvdprof.ingest.storage.cached_table import KeptTable
from hvdprof.model.cached_run import KeptRun
from hvdprof.model.table_catalogue import TABLES
from hvdprof.model.tables.run_tables import JOB_STEPS
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS
from hvdprof.report.tables.table_files import Rows


def loaded_tables(paths: Sequence[Path], told: Told) -> dict[str, Rows]:
    """All tables that have rows, by name, in the order of the docs.

    The tables of a large timeline that is given alone stay in the files that keep them.

    Raises:
        UnreadableInputError: Nothing usable is there.
    """
    run = api.load_run(paths, progress=told)
    if not isinstance(run, KeptRun):
        return dict(api.all_tables(run))
    tables = _of_several(run) if len(run.table(TIMELINES.name)) > 1 else _of_one(run, told)
    tables |= api.analyze_files(run).derived
    return {table.name: tables[table.name] for table in TABLES if len(tables.get(table.name, ()))}


def _of_several(run: KeptRun) -> dict[str, Rows]:
    steps, arrivals = JOB_STEPS.empty(), COLLECTIVE_ARRIVALS.empty()
    return {**run.tables, **communication_tables(run, steps, arrivals)}


def _of_one(run: KeptRun, told: Told) -> dict[str, Rows]:
    ((file, kept),) = run.kept.items()
    size = run.table(TIMELINES.name)["np"].iloc[0]
    own = {name: rows for name, rows in kept.items() if isinstance(rows, KeptTable)}
    others = {table.name: run.table(table.name) for table in TABLES if table.name not in kept}
    progress = functools.partial(told, file)
    num_ranks = None if pd.isna(size) else int(size)
    return {**others, **own, **kept_communication(file, kept, num_ranks, progress)}
