"""The time per sample of each launch of a setting, as races and checks compare it."""

import math

import numpy as np

from hvdprof.analyze.steps.measured_launches import measured_launches
from hvdprof.model.cell_key import CELL_KEY, TORCH_ENGINE
from hvdprof.model.run import Run


def log_times(run: Run) -> dict[int, float]:
    """By repeat, the logarithm of the time per sample: the mean over the cells of the launch.

    A repeat counts where all cells of the run have a result in it. Where the samples of a step are
    unknown it is the time per step, which compares settings of the same batch size.

    Args:
        run: The throughput passes of a run, finished or not.
    """
    measured = measured_launches(run)
    step_times = {
        (str(row["pass_id"]), str(row["segment"])): float(row["step_time_ns"])
        for row in measured.by_launch.to_dict("records")
    }
    found: dict[int, dict[tuple[object, ...], float]] = {}
    cells = set()
    for row in run.segments.to_dict("records"):
        key = (str(row["pass_id"]), str(row["segment"]))
        if row["engine"] == TORCH_ENGINE:
            continue
        cell = tuple(row[name] for name in ("size" if part == "np" else part for part in CELL_KEY))
        cells.add(cell)
        if step_times.get(key, 0.0) > 0:
            samples = measured.facts[key].samples
            work = samples if samples > 0 else 1.0
            found.setdefault(int(row["repeat"]), {})[cell] = math.log(step_times[key] / work)
    return {
        repeat: float(np.mean(list(values.values())))
        for repeat, values in found.items()
        if values.keys() == cells
    }
