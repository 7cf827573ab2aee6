"""The cells by which a run is judged: of each model the largest valid number of ranks.

Tested in ``tests/analyze/verdict/test_run_verdict.py``.
"""

import pandas as pd

from hvdprof.model.cell_key import with_engine, without_toggles
from hvdprof.rundir.plan import HOROVOD_ENGINE


def base_cells(scaling: pd.DataFrame) -> pd.DataFrame:
    """The rows of SCALING without toggles and plain torch; those of DDP where Horovod has none."""
    base = scaling[without_toggles(scaling) & with_engine(scaling)]
    # DDP is what Horovod is compared with; alone it is what the run is about.
    of_horovod = base["engine"] == HOROVOD_ENGINE
    return base[of_horovod] if of_horovod.any() else base


def scaled_cells(base: pd.DataFrame) -> pd.DataFrame:
    """Those of several ranks that are not the baseline itself, oversubscribed ones included."""
    own_name = base["engine"] + " np=" + base["np"].astype(str)
    scaled = base[(base["baseline"] != own_name) & (base["baseline"] != "")]
    return scaled[scaled["np"] > 1]


def largest_of_each_model(cells: pd.DataFrame) -> pd.DataFrame:
    """The cell of the largest number of ranks of every model."""
    return cells[cells["np"] == cells.groupby("model", sort=False)["np"].transform("max")]
