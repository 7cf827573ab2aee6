"""The lanes of one pass on a time axis: parts of every rank, and Horovod's timeline."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.figures.timeline.blocked_shares import blocked_shares
from hvdprof.figures.timeline.rank_times import StepTimes, step_times
from hvdprof.figures.timeline.viewport import Ints, Spans
from hvdprof.model.arrays import Float64s
from hvdprof.model.run import Run

RANK_PARTS: tuple[str, ...] = ("data", "forward", "backward", "optimizer", "blocked")
HOROVOD_KINDS: tuple[str, ...] = (
    "negotiation",
    "operation",
    "init",
    "wait",
    "queue",
    "copy",
    "transfer",
)
CATEGORIES: tuple[str, ...] = RANK_PARTS + HOROVOD_KINDS
"""Categories of a lane, in the order of ``Spans`` and of the legend."""

BLOCKED = "blocked"
INSIDE: dict[str, str] = dict.fromkeys(HOROVOD_KINDS[2:], "operation")
"""Inner category to outer category: the inner is drawn on top and not counted twice. Blocked time
is inside the phases that ``Lanes.blocked_in`` names."""

_COLUMNS = (
    *("segment", "source", "rank", "phase", "activity", "tensor", "fusion_id"),
    *("start_ns", "dur_ns"),
)
_BELOW = ("segment", "phase", "tensor", "fusion_id", "start_ns")
_BEGINNINGS = (
    ("INIT_", "init"),
    ("WAIT_", "wait"),
    ("QUEUE", "queue"),
    ("MEMCPY_", "copy"),
    ("ALLOCATE_", "copy"),
)


class LaneKind(StrEnum):
    """Kind of the lanes below the ranks."""

    EXECUTIONS = "executions"
    TENSORS = "tensors"


@dataclass(frozen=True, slots=True)
class Marks:
    """Instants in order of time: ``lane`` and the text of each; ``row`` is that of its table."""

    time_ns: Ints
    lane: Ints
    is_ready: NDArray[np.bool_]
    row: Ints

    def in_view(self, first_ns: int, last_ns: int) -> slice:
        """The marks between two times."""
        start, stop = np.searchsorted(self.time_ns, [first_ns, last_ns])
        return slice(int(start), int(stop))


@dataclass(frozen=True, slots=True)
class Lanes:
    """One pass on a time axis that begins with its first event at ``origin_ns``.

    The rows of ``spans`` are those of ``run.events``. Lanes of ranks come first; ``ranks`` are
    their numbers and ``hosts`` their hosts, empty where unknown. ``written_ns`` [segments, 2] is
    the first start and the last end of Horovod's events in each segment of ``steps``; -1 where it
    has none. ``blocked_in`` [categories] is the share of the ranks' blocked time that lies inside
    each phase.
    """

    run: Run
    pass_id: str
    kind: LaneKind
    names: tuple[str, ...]
    ranks: Ints
    hosts: tuple[str, ...]
    spans: Spans
    marks: Marks
    steps: StepTimes
    written_ns: Ints
    origin_ns: int
    blocked_in: Float64s

    @property
    def num_ranks(self) -> int:
        """Number of lanes of ranks."""
        return len(self.ranks)

    @property
    def length_ns(self) -> int:
        """From the first event to the last end of one; at least a microsecond."""
        return max(self.spans.last_ns - self.origin_ns, 1_000)


def pass_lanes(run: Run, pass_id: str, kind: LaneKind = LaneKind.EXECUTIONS) -> Lanes:
    """The lanes of a pass.

    Of a fused execution only the rows of its first tensor are drawn where lanes are executions:
    Horovod writes the same interval once for every tensor in it. An interval without an end
    reaches to the end of the pass.

    Args:
        run: A run directory or standalone files.
        pass_id: A pass of ``run.events``; for standalone timelines it is the file.
        kind: Whether the lanes below the ranks are Horovod's work or its tensors.
    """
    events = run.events
    here = np.flatnonzero(_is(events["pass_id"], pass_id))
    # A pass that is the whole table, as that of a standalone timeline, is not copied.
    part = events if len(here) == len(events) else events[list(_COLUMNS)].iloc[here]
    phase = part["phase"].astype(str) if part["phase"].dtype == object else part["phase"]
    recorded = _is(part["source"], "recorder") & _is(phase, "part")
    recorded &= part["activity"].isin(RANK_PARTS).to_numpy()
    written = _is(part["source"], "timeline") & (
        phase.isin(["negotiation", "operation", "activity"]).to_numpy()
    )
    ranks, rank_lane = np.unique(part["rank"].to_numpy()[recorded], return_inverse=True)
    below, lane_below, drawn = _lanes_below(part.loc[written, list(_BELOW)], kind)
    category = _categories(part)
    chosen = np.concatenate([np.flatnonzero(recorded), np.flatnonzero(written)[drawn]])
    lane = np.concatenate([rank_lane, len(ranks) + lane_below[drawn]]).astype(np.int64)
    start = part["start_ns"].to_numpy(np.int64)[chosen]
    length = part["dur_ns"].to_numpy(np.int64)[chosen]
    end = start + np.maximum(length, 0)
    if len(end):
        end[length < 0] = end.max()
    hosts = _hosts(run, pass_id, ranks)
    names = (
        *(f"rank {rank} {host}".strip() for rank, host in zip(ranks, hosts, strict=True)),
        *below,
    )
    shape = (len(names), len(CATEGORIES))
    of_ranks = slice(int(recorded.sum()))
    spans = Spans(lane, category[chosen], start, end, shape, here[chosen])
    marks = _marks(run, pass_id, ranks, part, here, len(ranks) if below else 0)
    steps = step_times(run, pass_id)
    return Lanes(
        run=run,
        pass_id=pass_id,
        kind=kind,
        names=names,
        ranks=ranks.astype(np.int64),
        hosts=hosts,
        spans=spans,
        marks=marks,
        steps=steps,
        written_ns=_written(part, written, steps.segments),
        origin_ns=spans.first_ns,
        blocked_in=blocked_shares(
            lane[of_ranks],
            category[chosen][of_ranks],
            start[of_ranks],
            end[of_ranks],
            blocked=CATEGORIES.index(BLOCKED),
            num_categories=len(CATEGORIES),
        ),
    )


def own_times(busy: Float64s, blocked_in: Float64s) -> Float64s:
    """[lanes, categories, bins] Busy times less those of the categories inside; at least 0.

    Args:
        busy: Of the categories that are shown.
        blocked_in: ``Lanes.blocked_in``.
    """
    own = busy.copy()
    for inner, outer in INSIDE.items():
        own[:, CATEGORIES.index(outer)] -= busy[:, CATEGORIES.index(inner)]
    own -= blocked_in[None, :, None] * busy[:, [CATEGORIES.index(BLOCKED)]]
    return own.clip(min=0)


def _is(column: pd.Series, value: str) -> NDArray[np.bool_]:
    answer: NDArray[np.bool_] = (column == value).to_numpy(bool)
    return answer


def _categories(part: pd.DataFrame) -> NDArray[np.int64]:
    """Number of the category of each row, by its phase and the name of its activity."""
    codes, names = pd.factorize(part["activity"])
    kinds = np.array([CATEGORIES.index(_kind(str(name))) for name in names], dtype=np.int64)
    category = kinds[codes] if len(kinds) else np.zeros(len(part), np.int64)
    for phase in ("negotiation", "operation"):
        category = np.where(_is(part["phase"], phase), CATEGORIES.index(phase), category)
    return category


def _kind(activity: str) -> str:
    if activity in RANK_PARTS:
        return activity
    return next((kind for start, kind in _BEGINNINGS if activity.startswith(start)), "transfer")


def _lanes_below(
    rows: pd.DataFrame, kind: LaneKind
) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.bool_]]:
    """Names of lanes, the lane of each row, and whether the row is drawn."""
    if rows.empty:
        return (), np.empty(0, np.int64), np.empty(0, bool)
    if kind is LaneKind.TENSORS:
        in_time = rows.iloc[np.argsort(rows["start_ns"].to_numpy(), kind="stable")]
        names = pd.unique(in_time["tensor"])
        lane = pd.Index(names).get_indexer(pd.Index(rows["tensor"]))
        return tuple(map(str, names)), lane.astype(np.int64), np.ones(len(rows), bool)
    negotiated = _is(rows["phase"], "negotiation")
    return (
        ("negotiation", "executions"),
        np.where(negotiated, 0, 1).astype(np.int64),
        negotiated | _of_first_tensor(rows),
    )


def _of_first_tensor(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Rows of the first tensor of each execution, and those that belong to none."""
    segment = pd.factorize(rows["segment"])[0].astype(np.int64)
    tensor = pd.factorize(rows["tensor"])[0]
    fusion = rows["fusion_id"].to_numpy(np.int64)
    execution = segment * (int(fusion.max()) + 2) + fusion
    operations = np.flatnonzero(_is(rows["phase"], "operation") & (fusion >= 0))
    known, first = np.unique(execution[operations], return_index=True)
    if not len(known):
        return np.ones(len(rows), bool)
    place = np.searchsorted(known, execution).clip(max=len(known) - 1)
    is_known = (known[place] == execution) & (fusion >= 0)
    drawn: NDArray[np.bool_] = ~is_known | (tensor == tensor[operations[first]][place])
    return drawn


def _hosts(run: Run, pass_id: str, ranks: NDArray[np.integer]) -> tuple[str, ...]:
    hosts = run.ranks[_is(run.ranks["pass_id"], pass_id)].set_index("rank")["hostname"].to_dict()
    return tuple(str(hosts.get(rank, "")) for rank in ranks)


def _written(part: pd.DataFrame, written: NDArray[np.bool_], segments: tuple[str, ...]) -> Ints:
    """First start and last end of Horovod's events in each segment; -1 where it has none."""
    spans = np.full((len(segments), 2), -1, dtype=np.int64)
    start = part["start_ns"].to_numpy(np.int64)
    end = start + part["dur_ns"].to_numpy(np.int64).clip(min=0)
    for number, segment in enumerate(segments):
        own = written & _is(part["segment"], segment)
        if own.any():
            spans[number] = start[own].min(), end[own].max()
    return spans


def _marks(
    run: Run,
    pass_id: str,
    ranks: NDArray[np.integer],
    part: pd.DataFrame,
    here: NDArray[np.integer],
    marks_lane: int,
) -> Marks:
    """Gradients as they became ready, and the instants of Horovod's timeline on one lane."""
    ready = np.flatnonzero(_is(run.arrivals["pass_id"], pass_id))
    rank = run.arrivals["rank"].to_numpy()[ready]
    ready = ready[np.isin(rank, ranks)]
    lane = np.searchsorted(ranks, run.arrivals["rank"].to_numpy()[ready])
    written = np.flatnonzero(_is(part["phase"], "mark") & _is(part["source"], "timeline"))
    time = np.concatenate(
        [
            run.arrivals["ready_ns"].to_numpy(np.int64)[ready],
            part["start_ns"].to_numpy(np.int64)[written],
        ]
    )
    order = np.argsort(time, kind="stable")
    is_ready = np.arange(len(time)) < len(ready)
    lanes = np.concatenate([lane, np.full(len(written), marks_lane)]).astype(np.int64)
    rows = np.concatenate([ready, here[written]]).astype(np.int64)
    return Marks(time[order], lanes[order], is_ready[order], rows[order])
