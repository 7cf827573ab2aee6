"""Whether the recorded steps bear what was reported while they ran."""

import math

import numpy as np
import pandas as pd

from hvdprof.model.arrays import Float64s, FrameRow
from hvdprof.model.tables.live_tables import LIVE_EVENTS
from hvdprof.rundir.recording.stall_format import EventKind

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"
LEAST_SHARE = 0.05
"""Of the step: the least lateness that a watcher reports."""

_BATCHES = 10
_T_OF_BATCHES = 2.262
"""Student's t for 9 degrees of freedom, 95 %."""


def live_events(events: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """LIVE_EVENTS.

    The lateness of a step is the own time of the rank, a step less its waits, beyond the median of
    the other ranks. Its interval is that of the means of ten batches of consecutive steps: steps
    next to each other are alike.

    Args:
        events: WATCHED_EVENTS.
        steps: STEPS.
    """
    if events.empty:
        return LIVE_EVENTS.empty()
    rows = []
    for event in events.to_dict("records"):
        late, low, high, outcome = math.nan, math.nan, math.nan, ""
        if event["event"] == EventKind.STRAGGLER:
            lateness, length = _lateness(steps, event)
            if len(lateness) >= 2 * _BATCHES:
                late, low, high = _interval(lateness)
                outcome = _outcome(low, high, LEAST_SHARE * length)
        more = {"outcome": outcome, "late_ns": late, "late_low_ns": low, "late_high_ns": high}
        rows.append({str(name): value for name, value in event.items()} | more)
    return LIVE_EVENTS.frame(rows)


def _lateness(steps: pd.DataFrame, event: FrameRow) -> tuple[Float64s, float]:
    """Lateness of the rank in each step of an event, and the mean length of these steps, ns."""
    last = event["last_step"]
    inside = (
        (steps["pass_id"] == event["pass_id"])
        & (steps["segment"] == event["segment"])
        & (steps["step"] >= event["first_step"])
        & (~steps["warmup"])
    )
    if isinstance(last, int) and last >= 0:
        inside &= steps["step"] <= last
    own = steps.loc[inside & steps["blocked_ns"].notna()]
    table = (
        own.assign(own=own["dur_ns"].astype(float) - own["blocked_ns"].astype(float))
        .pivot_table(index="step", columns="rank", values="own", observed=True)
        .dropna()
    )
    if event["rank"] not in table or len(table.columns) < 2 or table.empty:
        return np.empty(0), math.nan
    others = table.drop(columns=event["rank"]).median(axis=1)
    lateness = (table[event["rank"]] - others).to_numpy(dtype=np.float64)
    return lateness, float(own["dur_ns"].mean())


def _interval(values: Float64s) -> tuple[float, float, float]:
    means = np.array([batch.mean() for batch in np.array_split(values, _BATCHES)])
    half = _T_OF_BATCHES * means.std(ddof=1) / math.sqrt(_BATCHES)
    mean = float(values.mean())
    return mean, mean - float(half), mean + float(half)


def _outcome(low: float, high: float, least: float) -> str:
    if high < least:
        return REFUTED
    return CONFIRMED if low > 0 else UNDECIDED
