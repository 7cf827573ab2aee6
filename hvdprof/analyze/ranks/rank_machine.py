"""What the machine did to each rank in its steady steps, and what its GPU made of it (MFU).

Equal ranks have the highest value of a window equally often. So where one has it in more windows
than chance gives, the machine treated it differently. That alone is no cause: how much it explains
is judged where a straggler was found.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.distributions import binomial_tail, student_quantile
from hvdprof.analyze.stats.uncertainty import NAN, Mean
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.arrays import Float64s
from hvdprof.model.cell_key import LAUNCH, LaunchKey
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rundir.recording.sample_format import FLOP, FLOP_RATE, GROWTH_PARTS, MEASURES, MFU

_SUMMED = ("start_ns", "duration_ns", "mean", "low", "high")

_FILES = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center"
_V100 = (
    "https://images.nvidia.com/content/technologies/volta/pdf/"
    "volta-v100-datasheet-update-us-1165301-r5.pdf"
)
_T4 = f"{_FILES}/tesla-t4/t4-tensor-core-datasheet-951643.pdf"
_A10 = f"{_FILES}/a10/pdf/a10-datasheet.pdf"
_A100 = f"{_FILES}/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_L4 = "https://resources.nvidia.com/en-us-data-center-overview/l4-gpu-datasheet"
_ADA = "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"
_L40S = "https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413"
_HOPPER = "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_NVL = "https://www.nvidia.com/en-us/data-center/h100/"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/"
_B200 = "https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703"
_AMD = "https://www.amd.com/en/products/accelerators/instinct"

MOST_BESIDE = 0.5
"""Share between steps, as in turns of other launches, from which on a window says nothing."""


def rank_machine(
    samples: tuple[pd.DataFrame, ...], works: Mapping[LaunchKey, StepWork]
) -> pd.DataFrame:
    """RANK_MACHINE.

    Args:
        samples: RANK_SAMPLES and DEVICE_SAMPLES.
        works: The steady steps of each launch.
    """
    rows: list[dict[str, object]] = []
    of_passes = [one for table in samples for one in _windows_of(table).items()]
    for (pass_id, segment), work in works.items():
        if not len(work.steps):
            continue
        begin, end = float(work.begin.min()), float(work.end.max())
        step_ns = float(work.step_times.mean())
        beside = np.stack([work.end[:-1].max(axis=1), work.begin[1:].min(axis=1)], axis=1)
        beside = beside[beside[:, 1] > beside[:, 0]]
        for (sampled, measure), own in of_passes:
            if sampled == pass_id:
                head = {"pass_id": pass_id, "segment": segment, "measure": measure}
                found = _rows(own, begin, end, step_ns, beside, MEASURES[measure].is_count)
                rows += [head | row for row in found]
    return RANK_MACHINE.frame(rows)


def _windows_of(samples: pd.DataFrame) -> dict[tuple[str, str], dict[int, Float64s]]:
    """The windows of each rank by pass and measure."""
    keys = ["pass_id", "measure", "rank"]
    number = samples.groupby(keys, observed=True).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    values = samples[list(_SUMMED)].to_numpy(dtype=np.float64)
    columns = [samples[name].array for name in keys]
    found: dict[tuple[str, str], dict[int, Float64s]] = {}
    for rows in np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else ():
        pass_id, measure, rank = (column[rows[0]] for column in columns)
        found.setdefault((str(pass_id), str(measure)), {})[int(rank)] = values[rows]
    return found


def _rows(
    windows_of: Mapping[int, Float64s],
    begin: float,
    end: float,
    step_ns: float,
    beside: Float64s,
    is_growth: bool,
) -> Iterator[dict[str, object]]:
    """One row per rank, of the windows that lie in the steady steps and not ``beside`` them.

    Where all are beside, a growth per second is that of the sleep, and a level what it is.
    """
    ranks: dict[int, Float64s] = {}
    for rank, windows in windows_of.items():
        middle, ends = windows[:, 0] + windows[:, 1] / 2, windows[:, 0] + windows[:, 1]
        is_in = (middle >= begin) & (middle <= end)
        # A script frees its memory behind the last step, where a short window has its sample.
        is_own = _beside(windows, beside) < MOST_BESIDE
        is_in &= is_own | (not is_growth and not (is_in & is_own).any())
        is_in = is_in & (ends <= end) if (is_in & (ends <= end)).any() else is_in
        inside = windows[is_in]
        if len(inside):
            ranks[rank] = inside
    if not ranks:
        return
    grid = _on_one_grid(list(ranks.values()))
    is_compared = len(grid) > 0 and len(ranks) > 1
    all_above = (grid > _of_others(grid, np.maximum, -np.inf)).sum(axis=0)
    all_below = (grid < _of_others(grid, np.minimum, np.inf)).sum(axis=0)
    means = _of_others(grid.sum(axis=0, keepdims=True), np.add, 0.0)[0]
    means /= max(len(grid) * (len(ranks) - 1), 1)
    for place, (rank, windows) in enumerate(ranks.items()):
        above, below = (int(number[place]) * is_compared for number in (all_above, all_below))
        yield {
            "rank": rank,
            "windows": len(windows),
            "mean": float(np.average(windows[:, 2], weights=np.maximum(windows[:, 1], 1))),
            "low": float(windows[:, 3].min()),
            "high": float(windows[:, 4].max()),
            "others": float(means[place]) if is_compared else NAN,
            **_growth(windows, step_ns),
            "num_above": above,
            "num_below": below,
            "chance": _chance(max(above, below), len(grid), len(ranks)) if is_compared else NAN,
        }


def _beside(windows: Float64s, beside: Float64s) -> Float64s:
    """The share of each window that lies between steps."""
    starts, ends = windows[:, :1], windows[:, :1] + windows[:, 1:2]
    common = np.minimum(ends, beside[:, 1]) - np.maximum(starts, beside[:, 0])
    return np.asarray(np.maximum(common, 0.0).sum(axis=1) / np.maximum(windows[:, 1], 1.0))


def _of_others(grid: Float64s, joined: np.ufunc, empty: float) -> Float64s:
    """[windows, ranks] Of each rank, what joins the values of all others in a window."""
    edge = np.full((len(grid), 1), empty)
    before = joined.accumulate(np.hstack((edge, grid[:, :-1])), axis=1)
    behind = joined.accumulate(np.hstack((edge, grid[:, :0:-1])), axis=1)[:, ::-1]
    return np.asarray(joined(before, behind), dtype=np.float64)


def _on_one_grid(ranks: list[Float64s]) -> Float64s:
    """[windows, ranks] The means of each rank in the windows that all of them cover.

    Ranks begin their windows at moments of their own: the values of each are integrated over time,
    and read at the ends of the windows of the first one.
    """
    starts = max(float(own[0, 0]) for own in ranks)
    ends = min(float(own[-1, 0] + own[-1, 1]) for own in ranks)
    edges = np.append(ranks[0][:, 0], ranks[0][-1, 0] + ranks[0][-1, 1])
    edges = np.unique(np.clip(edges, starts, ends))
    if len(edges) < 2:
        return np.empty((0, len(ranks)))
    means = []
    for own in ranks:
        times = np.append(own[:, 0], own[-1, 0] + own[-1, 1])
        sums = np.append(0.0, np.cumsum(own[:, 2] * np.diff(times)))
        means.append(np.diff(np.interp(edges, times, sums)) / np.diff(edges))
    return np.stack(means, axis=1)


def _chance(most: int, num_windows: int, num_ranks: int) -> float:
    """How often any of equal ranks is first in so many windows, or last in so many."""
    tail = binomial_tail(np.array([most]), num_windows, 1 / num_ranks)[0]
    return float(min(2 * num_ranks * tail, 1.0))


def _growth(windows: Float64s, step_ns: float) -> dict[str, float]:
    """Growth per step with its 95 % interval, by Student's t over the growths between parts.

    These differences are an interval of a straight line and of a random walk alike: what memory
    does after a while is neither noise around a line.
    """
    names = ("growth", "growth_low", "growth_high", "last_growth")
    if len(windows) < 2 * GROWTH_PARTS:
        return dict.fromkeys(names, NAN)
    parts = np.array_split(windows, GROWTH_PARTS)
    times = np.array([(part[:, 0] + part[:, 1] / 2).mean() for part in parts])
    levels = np.array([part[:, 2].mean() for part in parts])
    rates = np.diff(levels) / np.diff(times) * step_ns
    mean = float(rates.mean())
    half = student_quantile(len(rates) - 1, 0.975) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    return dict(zip(names, (mean, mean - half, mean + half, float(rates[-1])), strict=True))


def whole_windows(samples: pd.DataFrame) -> pd.DataFrame:
    """DEVICE_SAMPLES without windows in which the FLOPs of a step changed with the model."""
    changed = samples["measure"].isin(FLOP.values()) & (samples["low"] != samples["high"])
    return samples[~changed.to_numpy(dtype=bool)]


def with_flop_rates(
    measured: pd.DataFrame, samples: pd.DataFrame, launches: pd.DataFrame
) -> pd.DataFrame:
    """RANK_MACHINE with rows of ``flop_rate`` and ``mfu``, whose ends are those of the step time.

    MFU is NaN where the peak of the device is not known in one of the precisions; on a CPU there is
    no such row.

    Args:
        measured: RANK_MACHINE.
        samples: DEVICE_SAMPLES, for the names of the devices.
        launches: LAUNCHES.
    """
    flops = measured[measured["measure"].isin(FLOP.values()).to_numpy(dtype=bool)]
    if flops.empty:
        return measured
    devices = {
        (str(pass_id), int(str(rank))): str(own["device"].iloc[-1])
        for (pass_id, rank), own in samples.groupby(["pass_id", "rank"], observed=True)
    }
    steps = {(str(row["pass_id"]), str(row["segment"])): row for row in launches.to_dict("records")}
    rows: list[dict[str, object]] = []
    for (pass_id, segment, rank), own in flops.groupby([*LAUNCH, "rank"], observed=True):
        launch = steps.get((str(pass_id), str(segment)))
        if launch is None:
            continue
        counted = dict(zip(own["measure"].astype(str), own["mean"], strict=True))
        step = Mean(
            launch["step_time_ns"], launch["step_time_error_ns"], launch["num_effective_steps"]
        ).interval()
        device = devices.get((str(pass_id), int(str(rank))), "")
        head = {"pass_id": pass_id, "segment": segment, "rank": rank}
        for measure, amount in _amounts(counted, device):
            ends = (amount / time * 1e9 for time in (step.value, step.high, step.low))
            values = dict(zip(("mean", "low", "high"), ends, strict=True))
            rows.append(_blank(own) | head | {"measure": measure} | values)
    known = (
        {str(name): value for name, value in row.items()} for row in measured.to_dict("records")
    )
    return RANK_MACHINE.frame([*known, *rows])


def _amounts(counted: dict[str, float], device: str) -> Iterator[tuple[str, float]]:
    """What is divided by the step time, in s: FLOPs for their rate, the least time for MFU."""
    yield FLOP_RATE, sum(counted.values())
    if device:
        known = [name for name, measure in FLOP.items() if measure in counted]
        yield MFU, sum(counted[FLOP[name]] / peak_of(device, name) for name in known)


def _blank(own: pd.DataFrame) -> dict[str, object]:
    """A row with the windows of the count, and without what is held against other ranks."""
    numbers: dict[str, object] = {
        column.name: NAN if column.dtype == "float64" else 0 for column in RANK_MACHINE.columns
    }
    return numbers | {"windows": int(own["windows"].iloc[0])}


class DevicePeak(NamedTuple):
    """TFLOP/s, dense, of a device whose name, as torch has it, matches the pattern; 0 unknown."""

    title: str
    pattern: str
    fp32: float
    tf32: float
    fp16: float
    bf16: float
    fp8: float
    source: str


PEAKS = (
    DevicePeak("V100 SXM", r"V100-SXM", 15.7, 0, 125, 0, 0, _V100),
    DevicePeak("V100 PCIe", r"V100-PCIE", 14, 0, 112, 0, 0, _V100),
    DevicePeak("T4", r"(Tesla|NVIDIA) T4$", 8.1, 0, 65, 0, 0, _T4),
    DevicePeak("A10", r"NVIDIA A10$", 31.2, 0, 125, 125, 0, _A10),
    DevicePeak("A100", r"A100[- ]", 19.5, 156, 312, 312, 0, _A100),
    DevicePeak("L4", r"NVIDIA L4$", 30.3, 0, 121, 121, 0, _L4),
    DevicePeak("L40S", r"NVIDIA L40S$", 91.6, 183, 362.05, 362.05, 733, _L40S),
    DevicePeak("RTX 4090", r"NVIDIA GeForce RTX 4090$", 82.6, 82.6, 165.2, 165.2, 0, _ADA),
    DevicePeak("H100 PCIe", r"H100 PCIe", 51, 0, 756.5, 756.5, 0, _HOPPER),
    DevicePeak("H100 NVL", r"H100 NVL", 0, 0, 0, 835, 0, _NVL),
    DevicePeak("H100 SXM", r"H100 80GB HBM3$", 66.9, 494.7, 989.4, 989.4, 1978.9, _HOPPER),
    DevicePeak("H200", r"NVIDIA H200$", 0, 0, 989, 989, 0, _H200),
    DevicePeak("B200", r"NVIDIA B200$", 0, 0, 2250, 2250, 0, _B200),
    DevicePeak("MI250X, one GCD", r"MI250X$", 0, 0, 191.5, 191.5, 0, f"{_AMD}/mi200/mi250x.html"),
    DevicePeak(
        "MI300X", r"MI300X( OAM)?$", 163.4, 0, 1307.4, 1307.4, 0, f"{_AMD}/mi300/mi300x.html"
    ),
)


def peak_of(device: str, precision: str) -> float:
    """The dense peak of a device, FLOP/s; NaN of unknown ones, of parts, and in other precisions.

    Args:
        device: Its name as torch has it.
        precision: ``bf16``, ``tf32``, ...
    """
    known = (peak for peak in PEAKS if re.search(peak.pattern, device) and " MIG " not in device)
    found: float = getattr(next(known, None), precision, 0)
    return found * 1e12 or float("nan")
