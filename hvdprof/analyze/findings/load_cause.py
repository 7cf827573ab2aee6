"""Whether the load of other processes can be the cause of a row of WATERFALL.

Tested in ``tests/analyze/findings/test_load_cause.py``.
"""

from hvdprof.analyze.findings.cause_advice import is_rare_work
from hvdprof.analyze.ranks.named_cause import PERIODIC
from hvdprof.analyze.steps.other_load import OtherLoad
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import ANY_RANK, JITTER
from hvdprof.model.frame_row import FrameRow


def explains(load: OtherLoad, row: FrameRow) -> bool:
    """Whether a load can be the cause of a row of WATERFALL of its cell, by its size.

    Never of delays that follow the steps of the job, of which other processes know nothing: every
    so many steps, or of some ranks before the update.
    """
    if row["pattern"] == PERIODIC or is_rare_work(row):
        return False
    return load.can_cost(float(row["share"]), num_ranks_delayed(row))


def num_ranks_delayed(row: FrameRow) -> int:
    """The ranks that must lose time for a row of WATERFALL.

    Those that it names; one for jitter and delays of any rank, as a step waits for its slowest rank
    alone; else all ranks of the cell.
    """
    if row["ranks"] == ANY_RANK or row["term"] == JITTER:
        return 1
    return len(ranks_of(row)) or int(row["np"])
