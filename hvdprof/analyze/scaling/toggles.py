"""Effect of fp16, Adasum and DDP on speed and on training, against the same cell without."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.scaling.efficiency import in_order
from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, LARGEST_LOG, NAN
from hvdprof.analyze.steps.cells import Cell, CellTime, throughput_cells
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.cell_key import (
    CELL_KEY,
    LAUNCH,
    NO_ADASUM,
    NO_COMPRESSION,
    LaunchKey,
    rows_by_launch,
)
from hvdprof.model.tables.waterfall_tables import TOGGLES
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

SMALLEST_EFFECT = 0.02
"""A speed-up with the whole interval within 2 % of 1 counts as no effect."""

COMPARED_SHARE = 0.1

Curves = Mapping[LaunchKey, tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Per launch: samples of all ranks up to each step, and the mean loss of the step."""


def toggles(
    times: Mapping[Cell, CellTime],
    works: Mapping[LaunchKey, StepWork],
    segments: pd.DataFrame,
    scaling: pd.DataFrame,
    curves: Curves,
) -> pd.DataFrame:
    """TOGGLES: every cell with one toggle against the cell without, paired by repeat.

    A cell of DDP without toggles is compared with that of Horovod, as if the engine were a toggle.

    Both of a pair ran in one launch or next to each other, so a slow drift of the machine affects
    both. The interval of the mean log ratio of their step times (Student t over pairs) has a
    level shared among all comparisons of the sweep (Bonferroni, the first step of Holm's).
    """
    cells = {time.cell: time for time in throughput_cells(times)}
    repeat_of = {
        (str(row["pass_id"]), str(row["segment"])): int(row["repeat"])
        for row in segments.to_dict("records")
    }
    pairs = [
        (time, base)
        for time in in_order(list(cells.values()))
        if (base := _base_of(time.cell, cells)) is not None
    ]
    rows = []
    for time, base in pairs:
        # Logarithm of the speed-up of each repeat in which both were measured.
        own, other = (
            {repeat_of[key]: works[key].step_times.mean() for key in of.launches if key in works}
            for of in (time, base)
        )
        logs = [
            math.log(other[repeat] / own[repeat]) for repeat in sorted(own.keys() & other.keys())
        ]
        rows.append(_row(time, base, logs, len(pairs), _learned(scaling, time, base)))
        rows[-1] |= _times(time, base, works)
        rows[-1]["samples_to_loss_ratio"] = samples_to_loss_ratio(curves, time, base)
    return TOGGLES.frame(rows)


def _toggles_on(cell: Cell) -> dict[str, str]:
    """The active toggles of a cell: field of the cell to the name in TOGGLES."""
    on = {
        "engine": DDP_ENGINE if cell.engine == DDP_ENGINE else "",
        "compression": "" if cell.compression in NO_COMPRESSION else cell.compression,
        "reduction": "" if cell.reduction in NO_ADASUM else cell.reduction,
    }
    if not cell.is_base or cell.np == 1:
        # With a toggle on, both have the same engine; one rank exchanges nothing.
        on["engine"] = ""
    return {field: name for field, name in on.items() if name}


def _base_of(cell: Cell, cells: Mapping[Cell, CellTime]) -> CellTime | None:
    on = _toggles_on(cell)
    if len(on) != 1:
        return None
    off = {"engine": HOROVOD_ENGINE, "compression": "none", "reduction": "average"}
    (field,) = on
    return cells.get(_with_field(cell, field, off[field]))


def _with_field(cell: Cell, field: str, value: str) -> Cell:
    match field:
        case "engine":
            return replace(cell, engine=value)
        case "compression":
            return replace(cell, compression=value)
    return replace(cell, reduction=value)


def _row(
    time: CellTime,
    base: CellTime,
    logs: list[float],
    num_comparisons: int,
    learned: dict[str, float],
) -> dict[str, object]:
    mean = float(np.mean(logs)) if logs else NAN
    reach = NAN
    if len(logs) > 1:
        level = 1 - (1 - CONFIDENCE) / (2 * num_comparisons)
        quantile = student_quantile(len(logs) - 1, level)
        reach = quantile * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    # Two repeats that differ much give an interval beyond the range of floats.
    low, high = math.exp(mean - reach), math.exp(min(mean + reach, LARGEST_LOG))
    verdict, reason = _verdict(time, low, high, len(logs))
    return {
        "model": time.cell.model,
        "np": time.cell.np,
        "engine": time.cell.engine,
        "toggle": next(iter(_toggles_on(time.cell).values())),
        "num_pairs": len(logs),
        "speedup": math.exp(mean),
        "speedup_low": low,
        "speedup_high": high,
        **learned,
        "verdict": verdict,
        "reason": reason,
    }


def _verdict(time: CellTime, low: float, high: float, num_pairs: int) -> tuple[str, str]:
    if time.oversubscribed:
        return "not comparable", "more ranks than cores or GPUs"
    if time.cell.np == 1:
        return "not comparable", "one rank sends no gradients"
    if num_pairs < 2:
        return "not comparable", "measured in fewer than two repeats, so its interval is unknown"
    if low > 1:
        return "pays", ""
    if high < 1:
        return "costs", ""
    if low > 1 - SMALLEST_EFFECT and high < 1 + SMALLEST_EFFECT:
        return "no effect", ""
    return "not comparable", "the interval contains both a gain and a loss: measure more repeats"


def _learned(scaling: pd.DataFrame, time: CellTime, base: CellTime) -> dict[str, float]:
    own, other = (_cell_row(scaling, of.cell) for of in (time, base))
    sent = other["sent_bytes"]
    return {
        "sent_bytes_ratio": own["sent_bytes"] / sent if sent else NAN,
        "loss_ratio": own["final_loss"] / other["final_loss"] if other["final_loss"] else NAN,
    }


def _cell_row(scaling: pd.DataFrame, cell: Cell) -> dict[str, float]:
    rows = scaling
    for name in CELL_KEY:
        rows = rows[rows[name] == getattr(cell, name)]
    rows = rows[rows["batch_size"].fillna(0) == cell.batch_size]
    row = rows.to_dict("records")[0]
    return {"sent_bytes": float(row["sent_bytes"]), "final_loss": float(row["final_loss"])}


def _times(time: CellTime, base: CellTime, works: Mapping[LaunchKey, StepWork]) -> dict[str, float]:
    def mean_of(of: CellTime, what: str) -> float:
        found = [works[key] for key in of.launches if key in works]
        if what == "own":
            return float(np.mean([work.own.mean() for work in found])) if found else NAN
        blocked = [
            (work.arrived.max(axis=1, keepdims=True) + work.transfer - work.arrived).mean()
            for work in found
        ]
        return float(np.mean(blocked)) if found else NAN

    return {
        "blocked_saved_ns": mean_of(base, "blocked") - mean_of(time, "blocked"),
        "own_work_added_ns": mean_of(time, "own") - mean_of(base, "own"),
    }


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
