"""The tables of lines of code of a run.

Tested in ``tests/analyze/lines/test_line_causes.py``.
"""

from collections.abc import Mapping

import pandas as pd

from hvdprof.analyze.lines.line_causes import line_causes
from hvdprof.analyze.lines.line_times import SampledLines, line_times
from hvdprof.analyze.stragglers.waiting import WaitingTables
from hvdprof.model.run import Run
from hvdprof.model.tables.line_tables import (
    LINE_CAUSES,
    LINE_SAMPLES,
    LINE_SAMPLING,
    LINES,
    NAMED_CALLS,
)


def line_tables(
    run: Run, waits: WaitingTables, waterfall: pd.DataFrame
) -> Mapping[str, pd.DataFrame]:
    """LINES and LINE_CAUSES; none of a run without samples and calls.

    Args:
        run: The run.
        waits: The steady steps and named causes of its launches.
        waterfall: WATERFALL.
    """
    samples, calls = run.table(LINE_SAMPLES.name), run.table(NAMED_CALLS.name)
    if samples.empty and calls.empty:
        return {}
    first_steps = {key: int(work.steps.min()) for key, work in waits.works.items()}
    sampled = SampledLines(samples, run.table(LINE_SAMPLING.name), first_steps)
    return {
        LINES.name: line_times(sampled),
        LINE_CAUSES.name: line_causes(run.segments, sampled, calls, waits, waterfall),
    }
