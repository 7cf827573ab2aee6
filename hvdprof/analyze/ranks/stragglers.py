"""Stragglers: how late, how often, of which cause; and whether the steps bear live reports.

Lateness is a rank's time from release to its next arrival (``rank_times``) less the median of the
other ranks in the same step; with several synchronizations per step, the sum over them.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.ranks.named_cause import (
    LASTING,
    LEAST_STEPS_OF_CAUSE,
    SMALLEST_SHARE,
    STRAGGLER,
    NamedCause,
    run_starts,
)
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.ranks.shapes import LEAST_EXPLAINED
from hvdprof.analyze.stats.uncertainty import NAN, mean_of, wilson
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools, Float64s, FrameRow
from hvdprof.model.cell_key import LAUNCH, LaunchKey, Mode
from hvdprof.model.tables.finding_tables import LIVE_EVENTS
from hvdprof.model.tables.waiting_tables import (
    LATENESS,
    STRAGGLER_PATTERNS,
    STRAGGLERS,
    TIMELINE_WRITER,
)
from hvdprof.rundir.plan import HOROVOD_ENGINE
from hvdprof.rundir.recording.stall_format import EventKind

ROTATING, NONE = "rotating", "none"

WRITER_RANK = 0
"""Only rank 0 writes Horovod's timeline."""

_PERIODIC = "periodic"
"""The writer never rests, so it delays no step out of k."""

_CELL = ["model", "size", "engine", "compression", "reduction"]

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"
LEAST_SHARE = 0.05
"""Of the step: the least lateness that a watcher reports."""

_BATCHES = 10
_T_OF_BATCHES = 2.262
"""Student's t for 9 degrees of freedom, 95 %."""


def lateness_table(times_of: Mapping[LaunchKey, RankTimes]) -> pd.DataFrame:
    """LATENESS of the launches of two or more recorded ranks.

    Args:
        times_of: The times of the ranks of each launch, also of some of them.
    """
    frames = []
    for key, times in times_of.items():
        if len(times.ranks) < 2:
            continue
        late, steps = times.lateness, times.steps
        frames.append(
            pd.DataFrame(
                {
                    "pass_id": key[0],
                    "segment": key[1],
                    "step": np.repeat(steps, len(times.ranks)),
                    "rank": np.tile(times.ranks, len(steps)),
                    "lateness_ns": late.ravel(),
                }
            )
        )
    return LATENESS.frame(pd.concat(frames)) if frames else LATENESS.empty()


def stragglers(
    times: RankTimes, causes: Sequence[NamedCause], costs: Times, key: LaunchKey
) -> pd.DataFrame:
    """STRAGGLERS of one launch of two or more ranks.

    Pattern and phase of a rank are those of the largest cause that names it. Stalls of any rank at
    random are rotating stragglers, as is a launch without a named straggler in which waiting for
    the last rank costs 5 % of the step and no rank causes 80 % of it.

    Args:
        times: The own times of the launch.
        causes: Its named causes, largest first.
        costs: [ranks] What each rank costs (``costs_of_ranks``), ns per step.
        key: The launch.
    """
    length = times.length
    num_steps, num_ranks = length.shape
    if num_ranks < 2 or num_steps < LEAST_STEPS_OF_CAUSE:
        return STRAGGLERS.empty()
    step_ns, late = times.step_ns, times.lateness
    is_late = late >= SMALLEST_SHARE * step_ns
    late_ranks = [cause for cause in causes if cause.kind == STRAGGLER]
    rest = ROTATING if not late_ranks and _is_rotating(costs, step_ns) else NONE
    is_last = length.argmax(axis=1)
    shares = np.array([float((is_last == place).mean()) for place in range(num_ranks)])
    lows, highs = wilson(shares, np.full(num_ranks, float(num_steps)))
    rows: list[dict[str, object]] = []
    for place, rank in enumerate(times.ranks.tolist()):
        mean = mean_of(late[:, place])
        interval = mean.interval()
        cause = _of_rank(late_ranks, rank, num_ranks)
        when_late = late[is_late[:, place], place]
        rows.append(
            {
                "pass_id": key[0],
                "segment": key[1],
                "rank": rank,
                **_named(cause, times, place, rest),
                "share_last": float(shares[place]),
                "share_last_low": float(lows[place]),
                "share_last_high": float(highs[place]),
                "share_late": float(is_late[:, place].mean()),
                "longest_run": longest_run(is_late[:, place]),
                "lateness_ns": mean.value,
                "lateness_low_ns": interval.low,
                "lateness_high_ns": interval.high,
                "lateness_when_late_ns": float(when_late.mean()) if len(when_late) else NAN,
                "cost_ns": float(costs[place]),
                "cost_share": float(costs[place]) / step_ns,
            }
        )
    return STRAGGLERS.frame(rows)


def _of_rank(causes: Sequence[NamedCause], rank: int, num_ranks: int) -> NamedCause | None:
    """The largest cause that names the rank, else one of any rank."""
    own = [cause for cause in causes if rank in cause.ranks]
    return min(own, key=lambda cause: len(cause.ranks) == num_ranks, default=None)


def _named(
    cause: NamedCause | None, times: RankTimes, place: int, otherwise: str
) -> dict[str, object]:
    """The columns of STRAGGLERS that a named cause fills."""
    if cause is None:
        nothing = {"phase": "", "phase_share": NAN, "period_steps": NAN}
        return {"pattern": otherwise, **nothing, "num_events": 0, "first_step": None}
    own: Bools = np.asarray(cause.affected[:, place])
    events = own if cause.pattern in LASTING else run_starts(own)
    return {
        "pattern": ROTATING if len(cause.ranks) == len(times.ranks) else cause.pattern,
        "phase": cause.phase,
        "phase_share": cause.phase_share,
        "period_steps": cause.period_steps,
        "num_events": int(events.sum()),
        "first_step": int(times.steps[own.argmax()]) if own.any() else None,
    }


def _is_rotating(costs: Times, step_ns: float) -> bool:
    whole = float(costs.sum())
    return whole >= SMALLEST_SHARE * step_ns and float(costs.max()) < LEAST_EXPLAINED * whole


def longest_run(flags: NDArray[np.bool_]) -> int:
    """Length of the longest run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def without_timeline_writer(stragglers: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """STRAGGLERS in which rank 0 of a trace launch has the pattern ``timeline-writer``.

    It stays a straggler where a launch of the same cell without the timeline names it too, and
    where it is late in every k-th step.

    Args:
        stragglers: STRAGGLERS of all launches.
        segments: SEGMENTS.
    """
    own = stragglers.reset_index(drop=True)
    named = own[(own["rank"] == WRITER_RANK) & own["pattern"].isin(STRAGGLER_PATTERNS)]
    if named.empty:
        return stragglers
    names = dict.fromkeys([*LAUNCH, "mode", *_CELL], str)
    of_cells = segments[list(names)].astype(names).set_index(LAUNCH)
    named = named.astype(dict.fromkeys(LAUNCH, str)).join(of_cells, on=LAUNCH)
    known = set(named.loc[named["mode"] != Mode.TRACE, _CELL].itertuples(index=False, name=None))
    is_traced = (named["mode"] == Mode.TRACE) & (named["engine"] == HOROVOD_ENGINE)
    traced = named[is_traced & (named["pattern"] != _PERIODIC)]
    cells = traced[_CELL].itertuples(index=False, name=None)
    rows = [row for row, cell in zip(traced.index, cells, strict=True) if cell not in known]
    if not rows:
        return stragglers
    own.loc[rows, "pattern"] = TIMELINE_WRITER
    own.loc[rows, "phase"] = ""
    own.loc[rows, "phase_share"] = NAN
    return STRAGGLERS.frame(own)


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
