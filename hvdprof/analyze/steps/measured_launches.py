"""What every statement on step times starts from: steady steps, launches, cells and their facts.

Tested in ``tests/analyze/scaling/test_known_cells.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hvdprof.analyze.steps.cells import Cell, CellTime, cell_times
from hvdprof.analyze.steps.disturbed_turns import (
    counted_turns,
    in_counted_turns,
    turns_by_launch,
)
from hvdprof.analyze.steps.job_steps import job_steps
from hvdprof.analyze.steps.launch_facts import Facts, launch_facts
from hvdprof.analyze.steps.launches import launches, mark_steady
from hvdprof.model.run import Run


@dataclass(frozen=True, slots=True)
class MeasuredLaunches:
    """The launches of a run as its analysis and its stopping rule count them.

    Attributes:
        of_job: JOB_STEPS with ``steady`` set, without the steps of disturbed turns.
        by_launch: LAUNCHES.
        times: The step time of each cell.
        facts: The parts of the step and other facts of each launch.
    """

    of_job: pd.DataFrame
    by_launch: pd.DataFrame
    times: Mapping[Cell, CellTime]
    facts: Facts


def measured_launches(run: Run) -> MeasuredLaunches:
    """The steady steps of each launch, and the step time of each cell from its launches.

    Args:
        run: A run, finished or not.
    """
    turns = counted_turns(run)
    of_job = mark_steady(in_counted_turns(job_steps(run.steps), turns))
    by_launch = launches(of_job, run.segments, turns_by_launch(turns))
    return MeasuredLaunches(
        of_job, by_launch, cell_times(by_launch, run.segments), launch_facts(run.steps, of_job)
    )
