"""Every table of hvdprof; docs/reference/tables.md is generated from this list.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.errors import UsageError
from hvdprof.model.schema import Table
from hvdprof.model.tables.bandwidth_tables import BANDWIDTH_TABLES
from hvdprof.model.tables.collective_progress_tables import COLLECTIVE_PROGRESS
from hvdprof.model.tables.collective_tables import COLLECTIVE_TABLES
from hvdprof.model.tables.collective_timeout_tables import COLLECTIVE_TIMEOUTS
from hvdprof.model.tables.evaluation_tables import EVALUATIONS
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.inspector_tables import INSPECTOR_COLLECTIVES
from hvdprof.model.tables.log_tables import LOG_TABLES
from hvdprof.model.tables.nccl_call_tables import NCCL_CALL_TABLES
from hvdprof.model.tables.nccl_tables import NCCL_TABLES
from hvdprof.model.tables.net_tables import NET_TABLES
from hvdprof.model.tables.nsys_tables import NSYS_TABLES
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVE_TABLES
from hvdprof.model.tables.rank_cost_tables import RANK_COSTS
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
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES, LOSSES, SCALING
from hvdprof.model.tables.session_tables import SESSION_TABLES
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
)
from hvdprof.model.tables.training_log_tables import TRAINING_LOG_TABLES
from hvdprof.model.tables.waiting_tables import WAITING_TABLES
from hvdprof.model.tables.waterfall_tables import WATERFALL_TABLES
from hvdprof.model.tables.window_tables import WINDOWS

TABLES: tuple[Table, ...] = (
    SEGMENTS,
    RANKS,
    STEPS,
    EVALUATIONS,
    WINDOWS,
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
    *COLLECTIVE_TABLES,
    *RANK_COLLECTIVE_TABLES,
    COLLECTIVE_PROGRESS,
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
