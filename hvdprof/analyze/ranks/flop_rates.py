"""FLOP/s of each rank and the share of the peak of its GPU (MFU), where FLOPs were counted.

A step in several precisions has a least time: the sum of its FLOPs in each, divided by the peak
there. MFU is that time divided by the mean step time of the job.

Tested in ``tests/analyze/ranks/test_flop_rates.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof.analyze.ranks.device_peaks import peak_of
from hvdprof.analyze.stats.uncertainty import NAN, Mean
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rundir.recording.sample_format import FLOP, FLOP_RATE, MFU


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
