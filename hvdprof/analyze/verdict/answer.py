"""Which verdict a run gets: on its cells, its traces, its attached files, or its network.

Tested in ``tests/analyze/test_pipeline.py``.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from hvdprof.analyze.communication.network import network_verdict
from hvdprof.analyze.verdict.agreement import cell_account
from hvdprof.analyze.verdict.attached_verdict import attached_verdict, led_by_errors
from hvdprof.analyze.verdict.busy_machine import busy_sentences
from hvdprof.analyze.verdict.run_verdict import CellChecks, verdict
from hvdprof.analyze.verdict.traced_verdict import traced_verdict
from hvdprof.model.file_page import FilePage
from hvdprof.model.run import FailedSegment, Run, Verdict
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.net_tables import NET_LINKS
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, RANK_COSTS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.rundir.attached import has_traces


def answer(
    run: Run,
    tables: Mapping[str, pd.DataFrame],
    failed: Sequence[FailedSegment],
    pages: Sequence[FilePage],
) -> Verdict:
    """The verdict of a run, without its caveats.

    Args:
        run: Any run.
        tables: Those of its analysis, by name.
        failed: Its cells that failed.
        pages: What its attached files of other recorders hold.
    """
    by_cell, causes, found, costs = (
        tables[table.name] for table in (SCALING, WATERFALL, FINDINGS, RANK_COSTS)
    )
    if has_traces(run.manifest):
        waits = tables[CAUSED_WAIT.name]
        of_traces = traced_verdict(run, by_cell, causes, found, waits, costs)
        known = led_by_errors(run, of_traces, pages)
    else:
        checks = CellChecks(
            busy_of=lambda cell: busy_sentences(run, cell),
            account_of=lambda cell: cell_account(costs, run.segments, cell),
        )
        of_cells = verdict(by_cell, causes, found, failed, run.manifest, checks=checks)
        known = attached_verdict(run, of_cells, pages)
    return network_verdict(run, tables[NET_LINKS.name], known)
