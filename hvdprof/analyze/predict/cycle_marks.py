"""The cycles of Horovod's loop that a timeline marks."""

import numpy as np
import pandas as pd

from hvdprof.model.arrays import Float64s
from hvdprof.model.launch_key import LAUNCH, LaunchKey, rows_by_launch

CYCLE_MARK = "CYCLE_START"


def cycle_marks(events: pd.DataFrame) -> dict[LaunchKey, Float64s]:
    """The starts of cycles of each launch whose timeline marks them, ascending, ns.

    Args:
        events: EVENTS.
    """
    marks = events.loc[(events["activity"] == CYCLE_MARK).to_numpy(), [*LAUNCH, "start_ns"]]
    return {
        key: np.sort(marks["start_ns"].to_numpy(dtype=np.float64)[rows])
        for key, rows in rows_by_launch(marks)
    }
