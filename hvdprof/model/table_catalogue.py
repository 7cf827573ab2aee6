"""Every table of hvdprof, and each as an attribute: ``run.executions``."""

import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Protocol

import pandas as pd

from hvdprof.errors import UsageError
from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.collective_tables import COLLECTIVE_TABLES
from hvdprof.model.tables.finding_tables import FINDINGS, LIVE_EVENTS, WATCHED_EVENTS
from hvdprof.model.tables.line_tables import CODE_LINE_TABLES, LINE_TABLES
from hvdprof.model.tables.log_tables import LOG_TABLES
from hvdprof.model.tables.nccl_call_tables import NCCL_CALL_TABLES
from hvdprof.model.tables.nccl_tables import NCCL_TABLES
from hvdprof.model.tables.nsys_tables import NSYS_TABLES
from hvdprof.model.tables.printed_tables import BANDWIDTH_TABLES, TRAINING_LOG_TABLES
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_PROGRESS,
    COLLECTIVE_TIMEOUTS,
    INSPECTOR_COLLECTIVES,
    RANK_COLLECTIVE_TABLES,
    RAS_STATEMENTS,
)
from hvdprof.model.tables.run_tables import (
    ARRIVALS,
    EVENTS,
    GRADIENTS,
    RANKS,
    SEGMENTS,
    STEPS,
    TURNS,
    WAITS,
)
from hvdprof.model.tables.sample_tables import NET_TABLES, RANK_MACHINE, SAMPLE_TABLES
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES, LOSSES, SCALING
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
    TIMELINES,
)
from hvdprof.model.tables.waiting_tables import RANK_COSTS, WAITING_TABLES
from hvdprof.model.tables.waterfall_tables import WATERFALL_TABLES
from hvdprof.model.tables.window_tables import EVALUATIONS, SESSION_TABLES, WINDOWS

TABLES: tuple[Table, ...] = (
    SEGMENTS,
    RANKS,
    STEPS,
    EVALUATIONS,
    WINDOWS,
    *LINE_TABLES,
    *SAMPLE_TABLES,
    GRADIENTS,
    ARRIVALS,
    WAITS,
    EXECUTIONS,
    TENSOR_USES,
    EVENTS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TURNS,
    JOB_STEPS,
    LAUNCHES,
    SCALING,
    LOSSES,
    *WATERFALL_TABLES,
    *WAITING_TABLES,
    RANK_COSTS,
    WATCHED_EVENTS,
    LIVE_EVENTS,
    *CODE_LINE_TABLES,
    RANK_MACHINE,
    *COLLECTIVE_TABLES,
    *RANK_COLLECTIVE_TABLES,
    COLLECTIVE_PROGRESS,
    RAS_STATEMENTS,
    *NET_TABLES,
    *SESSION_TABLES,
    TIMELINES,
    *LOG_TABLES,
    COLLECTIVE_TIMEOUTS,
    INSPECTOR_COLLECTIVES,
    *NSYS_TABLES,
    *TRAINING_LOG_TABLES,
    *BANDWIDTH_TABLES,
    *NCCL_TABLES,
    *NCCL_CALL_TABLES,
    FINDINGS,
)
_NARROWEST = 60


def declared_table(name: str) -> Table:
    """The declaration of a table by name.

    Raises:
        UsageError: No table has that name.
    """
    for table in TABLES:
        if table.name == name:
            return table
    raise UsageError(
        f"No table is named {name!r}.",
        hint=f"Tables: {', '.join(table.name for table in TABLES)}.",
    )


class HasTables(Protocol):
    """What gives out tables by name."""

    def table(self, name: str) -> pd.DataFrame:
        """One table, without rows where there are none."""


class TableAttribute:
    """An attribute that is the declared table of its own name, with or without rows."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = declared_table(name).doc

    def __get__(self, holder: HasTables | None, owner: type) -> pd.DataFrame:
        """The table of an object.

        Raises:
            AttributeError: It was asked of the class.
        """
        if holder is None:
            raise AttributeError(f"{self._name} belongs to objects, not to {owner.__name__}")
        return holder.table(self._name)


class Described:
    """Tables that print what they hold."""

    __slots__ = ()

    @property
    def row_counts(self) -> Mapping[str, int]:
        """The number of rows of every table that has some, by name."""
        raise NotImplementedError

    def describe(self, name: str = "") -> None:
        """Print the tables that have rows with their columns and units.

        Args:
            name: One table, with the meaning of each column; when empty, all of them in short.

        Raises:
            UsageError: No table has that name.
        """
        width = max(_NARROWEST, shutil.get_terminal_size().columns)
        if name:
            text = _in_full(declared_table(name), self.row_counts.get(name, 0), width)
        else:
            known = self.row_counts
            tables = [table for table in TABLES if table.name in known]
            text = "\n\n".join(_in_short(table, known[table.name], width) for table in tables)
        sys.stdout.write(f"{text}\n")


class RecordedTables(Described):
    """The tables that are read from files."""

    __slots__ = ()

    segments = TableAttribute()
    ranks = TableAttribute()
    steps = TableAttribute()
    evaluations = TableAttribute()
    windows = TableAttribute()
    line_samples = TableAttribute()
    line_sampling = TableAttribute()
    named_calls = TableAttribute()
    rank_samples = TableAttribute()
    host_samples = TableAttribute()
    device_samples = TableAttribute()
    watched_events = TableAttribute()
    gradients = TableAttribute()
    arrivals = TableAttribute()
    waits = TableAttribute()
    executions = TableAttribute()
    tensor_uses = TableAttribute()
    events = TableAttribute()
    inferred_steps = TableAttribute()
    pending_negotiations = TableAttribute()
    turns = TableAttribute()
    rank_collectives = TableAttribute()
    collective_progress = TableAttribute()
    rank_stacks = TableAttribute()
    ras_statements = TableAttribute()
    net_transfers = TableAttribute()
    session_ranks = TableAttribute()
    sessions = TableAttribute()
    resets = TableAttribute()
    timelines = TableAttribute()
    files = TableAttribute()
    horovod_log = TableAttribute()
    stalls = TableAttribute()
    incidents = TableAttribute()
    collective_timeouts = TableAttribute()
    inspector_collectives = TableAttribute()
    nsys_gpus = TableAttribute()
    nsys_steps = TableAttribute()
    comms_log = TableAttribute()
    training_iterations = TableAttribute()
    rank_timers = TableAttribute()
    straggler_reports = TableAttribute()
    nsys_nccl_calls = TableAttribute()
    nsys_nccl_kernels = TableAttribute()
    autotune = TableAttribute()
    nccl_test_runs = TableAttribute()
    nccl_tests = TableAttribute()
    printed_rates = TableAttribute()
    throughput = TableAttribute()
    allreduce_bench = TableAttribute()
    nccl_versions = TableAttribute()
    nccl_communicators = TableAttribute()
    nccl_ranks = TableAttribute()
    nccl_init_timings = TableAttribute()
    nccl_channels = TableAttribute()
    nccl_rings = TableAttribute()
    nccl_trees = TableAttribute()
    nccl_connections = TableAttribute()
    nccl_networks = TableAttribute()
    nccl_nics = TableAttribute()
    nccl_gpudirect = TableAttribute()
    nccl_settings = TableAttribute()
    nccl_links = TableAttribute()
    nccl_tuning = TableAttribute()
    nccl_choices = TableAttribute()
    nccl_calls = TableAttribute()
    nccl_traces = TableAttribute()
    nccl_problems = TableAttribute()
    nccl_quotes = TableAttribute()
    nccl_line_kinds = TableAttribute()


class DerivedTables(Described):
    """The tables that an analysis computes."""

    __slots__ = ()

    waterfall = TableAttribute()
    pop = TableAttribute()
    ceilings = TableAttribute()
    toggles = TableAttribute()
    engine_diffs = TableAttribute()
    replays = TableAttribute()
    clocks = TableAttribute()
    collective_arrivals = TableAttribute()
    caused_wait = TableAttribute()
    stragglers = TableAttribute()
    lateness = TableAttribute()
    rank_costs = TableAttribute()
    live_events = TableAttribute()
    lines = TableAttribute()
    line_causes = TableAttribute()
    rank_machine = TableAttribute()
    tensors = TableAttribute()
    step_communication = TableAttribute()
    breakdown = TableAttribute()
    overlap = TableAttribute()
    collectives = TableAttribute()
    link_fit = TableAttribute()
    matched_collectives = TableAttribute()
    collective_bandwidths = TableAttribute()
    net_links = TableAttribute()
    net_hosts = TableAttribute()
    net_use = TableAttribute()
    nccl_joined_calls = TableAttribute()


def _heading(table: Table, num_rows: int, width: int) -> str:
    rows = "1 row" if num_rows == 1 else f"{num_rows:,} rows"
    return textwrap.fill(f"{table.name}  {rows}. {table.doc}", width)


def _in_short(table: Table, num_rows: int, width: int) -> str:
    columns = ", ".join(
        f"{column.name} [{column.unit}]" if column.unit else column.name for column in table.columns
    )
    indent = "  "
    # A name and its unit stay on one line.
    fixed = columns.replace(" [", "\0[")
    listed = textwrap.fill(fixed, width, initial_indent=indent, subsequent_indent=indent)
    return f"{_heading(table, num_rows, width)}\n{listed}".replace("\0", " ")


def _in_full(table: Table, num_rows: int, width: int) -> str:
    names = max(len(column.name) for column in table.columns)
    units = max(len(_unit(column)) for column in table.columns)
    lines = [_heading(table, num_rows, width)]
    for column in table.columns:
        start = f"  {column.name:<{names}}  {_unit(column):<{units}}  "
        lines.append(
            textwrap.fill(
                column.doc, width, initial_indent=start, subsequent_indent=" " * len(start)
            )
        )
    return "\n".join(lines)


def _unit(column: Column) -> str:
    return column.unit or column.dtype
