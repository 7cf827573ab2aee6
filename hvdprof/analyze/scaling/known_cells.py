"""How well the cells are known by which a run is judged, and which cells these are."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from hvdprof.analyze.scaling.efficiency import scaling
from hvdprof.analyze.steps.measured_launches import measured_launches
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import LAUNCH, of_base_cell, with_engine, without_toggles
from hvdprof.model.run import Run
from hvdprof.model.schema import as_text
from hvdprof.rundir.plan import HOROVOD_ENGINE
from hvdprof.rundir.stopping import KnownCell


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


LARGEST_NOISE = 100.0


def known_cells(run: Run, confidence: float) -> list[KnownCell]:
    """The judged cell of every model that has a result, with the half width of its interval.

    The intervals are those of SCALING, as in the verdict.

    Args:
        run: The throughput passes of a run, finished or not.
        confidence: The level of the interval by which the run stops.
    """
    measured = measured_launches(run)
    printed = scaling(measured.times, measured.facts, {}, {})
    stopping = scaling(measured.times, measured.facts, {}, {}, confidence=confidence)
    at_level = stopping.to_dict("records")
    means = as_text(measured.by_launch, LAUNCH).merge(as_text(run.segments, LAUNCH), on=LAUNCH)
    base = base_cells(printed)
    scaled = scaled_cells(base)
    valid = scaled[~scaled["oversubscribed"].to_numpy(dtype=bool)]
    # One size alone has no efficiency: its throughput is the result.
    judged = largest_of_each_model(base if scaled.empty else valid)
    return [
        _known(cell, at_level[place], means)
        for place, cell in zip(judged.index, judged.to_dict("records"), strict=True)
    ]


def _known(cell: FrameRow, stopping: FrameRow, means: pd.DataFrame) -> KnownCell:
    engine, _, baseline_size = str(cell["baseline"]).partition(" np=")
    baseline = (int(baseline_size or cell["np"]), engine or str(cell["engine"]))
    return KnownCell(
        model=str(cell["model"]),
        size=int(cell["np"]),
        engine=str(cell["engine"]),
        baseline_size=baseline[0],
        baseline_engine=baseline[1],
        half_width=_half_width(cell),
        stopping_half_width=_half_width(stopping),
        step_noise=_step_noise(
            [
                of_base_cell(means, str(cell["model"]), *place)
                for place in {(int(cell["np"]), str(cell["engine"])), baseline}
            ]
        ),
    )


def _half_width(cell: FrameRow) -> float | None:
    """Half of the interval of the efficiency, else of the throughput as a share of it."""
    half = (cell["efficiency_high"] - cell["efficiency_low"]) / 2
    if math.isnan(half):
        spread = cell["samples_per_s_high"] - cell["samples_per_s_low"]
        half = spread / 2 / cell["samples_per_s"]
    return float(half) if math.isfinite(half) else None


def _step_noise(cells: Sequence[pd.DataFrame]) -> float | None:
    """Variance of launch means that their steps explain, divided by the rest of the variance."""
    if any(len(rows) < 2 for rows in cells):
        return None
    total = sum(float(np.log(rows["step_time_ns"]).var()) for rows in cells)
    errors = [rows["step_time_error_ns"] / rows["step_time_ns"] for rows in cells]
    within = sum(float(np.square(error).mean()) for error in errors)
    if math.isnan(within) or within == 0:
        return None
    return min(within / max(total - within, within / LARGEST_NOISE), LARGEST_NOISE)
