"""Effect of toggles on training: losses compared after the same number of samples."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.model.launch_key import LAUNCH, LaunchKey, rows_by_launch

COMPARED_SHARE = 0.1

Curves = Mapping[LaunchKey, tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Per launch: samples of all ranks up to each step, and the mean loss of the step."""


def loss_curves(steps: pd.DataFrame) -> Curves:
    """The curves of all launches; a loss is NaN where not recorded.

    Args:
        steps: STEPS.
    """
    by_step = steps.groupby([*LAUNCH, "step"], observed=True, sort=True)
    table = by_step.agg(samples=("samples", "sum"), loss=("loss", "mean")).reset_index()
    samples, loss = (table[name].to_numpy(dtype=np.float64) for name in ("samples", "loss"))
    return {key: (np.cumsum(samples[rows]), loss[rows]) for key, rows in rows_by_launch(table)}


def final_losses(curves: Curves, cells: Sequence[CellTime]) -> dict[Cell, float]:
    """The loss of each cell after the number of samples that every cell of its model has reached.

    The mean over launches, ranks and the steps in which the last tenth of these samples lies;
    warm-up batches count, because the model trains on them too. NaN without a recorded loss.
    """
    losses = {}
    for model in dict.fromkeys(time.cell.model for time in cells):
        of_model = [time for time in cells if time.cell.model == model]
        ends = [curves[key][0][-1] for time in of_model for key in time.launches if key in curves]
        for time in of_model:
            means = [loss_before(*curves[key], min(ends)) for key in time.launches if key in curves]
            known = [mean for mean in means if not np.isnan(mean)]
            losses[time.cell] = float(np.mean(known)) if known else NAN
    return losses


def samples_to_loss_ratio(curves: Curves, own: CellTime, other: CellTime) -> float:
    """Samples after which one cell reaches a loss, divided by those of the other.

    The loss is the worse of both final losses, so that both cells reach it. A cell reaches it where
    the mean over a tenth of its samples is first as low; the mean over its launches counts. NaN
    without a recorded loss, or where losses do not fall.
    """
    ends: list[float] = []
    smoothed: list[list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = []
    for time in (own, other):
        found = [_smoothed(*curves[key]) for key in time.launches if key in curves]
        if not found or any(len(loss) < 2 or not loss[-1] < loss[0] for _, loss in found):
            return NAN
        ends += [float(loss[-1]) for _, loss in found]
        smoothed.append(found)
    target = max(ends)
    needed = [
        np.mean([seen[np.argmax(loss <= target)] for seen, loss in found]) for found in smoothed
    ]
    return float(needed[0] / needed[1])


def _smoothed(
    seen: NDArray[np.float64], loss: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Samples, and the running mean of the known losses over a tenth of the steps before them."""
    known = ~np.isnan(loss)
    width = max(1, round(COMPARED_SHARE * int(known.sum())))
    sums = np.cumsum(np.concatenate([[0.0], loss[known]]))
    return seen[known][width - 1 :], (sums[width:] - sums[:-width]) / width


def loss_before(seen: NDArray[np.float64], loss: NDArray[np.float64], num_samples: float) -> float:
    """The mean loss of the steps in which the last tenth of a number of samples lies.

    NaN without a recorded loss.

    Args:
        seen: Samples of all ranks up to each step.
        loss: The loss of each step.
        num_samples: The number of samples, reached by the curve.
    """
    before = np.concatenate(([0.0], seen[:-1]))
    window = (seen > (1 - COMPARED_SHARE) * num_samples) & (before < num_samples)
    known = loss[window & ~np.isnan(loss)]
    return float(known.mean()) if len(known) else NAN
