"""Every table of hvdprof; docs/tables.md is generated from this list."""

from hvdprof.model.allreduce_bench_tables import ALLREDUCE_BENCH
from hvdprof.model.collective_tables import COLLECTIVE_TABLES
from hvdprof.model.finding_tables import FINDINGS
from hvdprof.model.log_tables import LOG_TABLES
from hvdprof.model.nccl_call_tables import NCCL_CALL_TABLES
from hvdprof.model.nccl_tables import NCCL_TABLES
from hvdprof.model.net_tables import NET_TABLES
from hvdprof.model.schema import Table
from hvdprof.model.session_tables import SESSION_TABLES
from hvdprof.model.tables import (
    ARRIVALS,
    EVENTS,
    JOB_STEPS,
    LAUNCHES,
    LOSSES,
    RANKS,
    SCALING,
    SEGMENTS,
    STEPS,
)
from hvdprof.model.timeline_file_tables import TIMELINES
from hvdprof.model.timeline_tables import EXECUTIONS, INFERRED_STEPS, TENSOR_USES
from hvdprof.model.waiting_tables import WAITING_TABLES
from hvdprof.model.waterfall_tables import WATERFALL_TABLES

TABLES: tuple[Table, ...] = (
    SEGMENTS,
    RANKS,
    STEPS,
    ARRIVALS,
    EVENTS,
    TENSOR_USES,
    EXECUTIONS,
    INFERRED_STEPS,
    JOB_STEPS,
    LAUNCHES,
    SCALING,
    LOSSES,
    *WATERFALL_TABLES,
    *WAITING_TABLES,
    *COLLECTIVE_TABLES,
    *NET_TABLES,
    *SESSION_TABLES,
    TIMELINES,
    *LOG_TABLES,
    ALLREDUCE_BENCH,
    *NCCL_TABLES,
    *NCCL_CALL_TABLES,
    FINDINGS,
)
