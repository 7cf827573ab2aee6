"""What each rank costs in some steps of a launch, chosen by a reader."""

from collections.abc import Callable

import pandas as pd

from hvdprof.analyze.ranks.account import rank_costs
from hvdprof.analyze.steps.step_work import step_work, with_all_ranks
from hvdprof.analyze.stragglers.waiting import waiting_tables
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.run_tables import WAITS
from hvdprof.model.tables.waiting_tables import RANK_COSTS


def costs_by_steps(analysis: RunAnalysis, launch: LaunchKey) -> Callable[[int, int], pd.DataFrame]:
    """RANK_COSTS of a launch from a first step to a last one, both included, as a function of them.

    Only steady steps count; without any in the choice there are no rows. The times of the launch
    are computed once, on clocks corrected by all its steps: costs of all its steps are those of
    the analysis.

    Args:
        analysis: The finished analysis.
        launch: A launch (pass_id, segment) with recorder files of all ranks.
    """

    def own(table: pd.DataFrame, *, has_segments: bool = True) -> pd.DataFrame:
        is_own = table["pass_id"] == launch[0]
        if has_segments:
            is_own &= table["segment"] == launch[1]
        return table[is_own.to_numpy(dtype=bool)]

    run = analysis.run
    events = own(run.events, has_segments=False)
    works = step_work(own(run.steps), events, own(analysis.job_steps), own(run.table(WAITS.name)))
    times = waiting_tables(run.arrivals, with_all_ranks(works, run.segments)).times.get(launch)

    def costs(first: int, last: int) -> pd.DataFrame:
        if times is None or not times.counted(first, last).any():
            return RANK_COSTS.empty()
        return rank_costs(times.between(first, last), launch)

    return costs
