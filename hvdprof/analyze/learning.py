"""Whether a toggle changes what is learned: losses compared after the same number of samples."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.cells import Cell, CellTime
from hvdprof.analyze.launches import LaunchKey, rows_by_launch
from hvdprof.analyze.uncertainty import NAN

COMPARED_SHARE = 0.1


def final_losses(steps: pd.DataFrame, cells: Sequence[CellTime]) -> dict[Cell, float]:
    """The loss of each cell after as many samples as every cell of its model has seen.

    The mean over launches, ranks and the steps in which the last tenth of these samples lies;
    warm-up batches count, as the model learned from them too. NaN where no loss was recorded.
    """
    curves = _curves(steps)
    losses = {}
    for model in dict.fromkeys(time.cell.model for time in cells):
        of_model = [time for time in cells if time.cell.model == model]
        ends = [curves[key][0][-1] for time in of_model for key in time.launches if key in curves]
        for time in of_model:
            means = [
                _mean_before(*curves[key], min(ends)) for key in time.launches if key in curves
            ]
            known = [mean for mean in means if not np.isnan(mean)]
            losses[time.cell] = float(np.mean(known)) if known else NAN
    return losses


def _curves(
    steps: pd.DataFrame,
) -> Mapping[LaunchKey, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Of each launch: samples of all ranks seen up to each step, and the mean loss of the step."""
    curves = {}
    for key, rows in rows_by_launch(steps):
        by_step = steps.iloc[rows].groupby("step", sort=True)
        samples = by_step["samples"].sum().to_numpy(dtype=np.float64)
        curves[key] = (np.cumsum(samples), by_step["loss"].mean().to_numpy(dtype=np.float64))
    return curves


def _mean_before(seen: NDArray[np.float64], loss: NDArray[np.float64], num_samples: float) -> float:
    before = np.concatenate(([0.0], seen[:-1]))
    window = (seen > (1 - COMPARED_SHARE) * num_samples) & (before < num_samples)
    known = loss[window & ~np.isnan(loss)]
    return float(known.mean()) if len(known) else NAN
