"""The lanes of one pass on a time axis: parts of every rank, and Horovod's timeline."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.figures.timeline.derived_spans import EVALUATION, NAMES, OUTSIDE, derived_spans
from hvdprof.figures.timeline.lane_rows import (
    categories_of,
    execution_lanes,
    pass_rows,
    tensor_lanes,
    written_spans,
)
from hvdprof.figures.timeline.rank_times import StepTimes, step_times
from hvdprof.figures.timeline.turn_axis import TurnAxis, turn_axis
from hvdprof.figures.timeline.viewport import Ints, Spans
from hvdprof.model.arrays import Float64s, Int32s, Uint8s
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.model.tables.window_tables import EVALUATIONS

RANK_PARTS: tuple[str, ...] = (
    *("data", "forward", "backward", "before_update", "optimizer", "blocked"),
)
DERIVED: tuple[str, ...] = (EVALUATION, OUTSIDE)
HOROVOD_KINDS: tuple[str, ...] = (
    *("negotiation", "operation", "init", "wait", "queue", "copy", "transfer"),
)
CATEGORIES: tuple[str, ...] = RANK_PARTS + DERIVED + HOROVOD_KINDS
"""Categories of a lane, in the order of ``Spans`` and of the legend."""

BLOCKED = "blocked"
INSIDE: dict[str, str] = dict.fromkeys(HOROVOD_KINDS[2:], "operation")
"""Inner category to outer category: the inner is drawn on top and not counted twice. Blocked time
is inside the phases that ``Lanes.blocked_in`` names."""

_BEGINNINGS = (
    ("INIT_", "init"),
    ("WAIT_", "wait"),
    ("QUEUE", "queue"),
    ("MEMCPY_", "copy"),
    ("ALLOCATE_", "copy"),
)
_BY_PHASE = {phase: CATEGORIES.index(phase) for phase in ("negotiation", "operation")}


class LaneKind(StrEnum):
    """Kind of the lanes below the ranks."""

    EXECUTIONS = "executions"
    TENSORS = "tensors"


@dataclass(frozen=True, slots=True)
class Marks:
    """Instants in order of time: ``lane`` and the text of each; ``row`` is that of its table."""

    time_ns: Ints
    lane: Int32s
    is_ready: NDArray[np.bool_]
    row: Int32s

    def in_view(self, first_ns: int, last_ns: int) -> slice:
        """The marks between two times."""
        start, stop = np.searchsorted(self.time_ns, [first_ns, last_ns])
        return slice(int(start), int(stop))


@dataclass(frozen=True, slots=True)
class Lanes:
    """One pass on a time axis that begins with its first event at ``origin_ns``.

    The rows of ``spans`` are those of ``run.events``, -1 for intervals of ``DERIVED`` categories,
    which no row holds. Lanes of ranks come first; ``ranks`` are
    their numbers and ``hosts`` their hosts, empty where unknown. ``written_ns`` [segments, 2] is
    the first start and the last end of Horovod's events in each segment of ``steps``; -1 where it
    has none. ``blocked_in`` [categories] is the share of the ranks' blocked time that lies inside
    each phase. ``axis`` shortens the turns of hvdprof.
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
    axis: TurnAxis

    @property
    def num_ranks(self) -> int:
        """Number of lanes of ranks."""
        return len(self.ranks)

    @property
    def length_ns(self) -> int:
        """From the first event to the last end of one; at least a microsecond."""
        return int(self.axis.time_ns[-1])

    def names_at(self, row: Ints, category: Ints, column: str) -> pd.Series:
        """Activity or tensor of intervals by their row of ``run.events`` and their category."""
        named = row >= 0
        names = np.full(len(row), "", dtype=object)
        # Rows before values: only the names of these rows are decoded.
        names[named] = self.run.events[column].iloc[row[named]].astype(object).to_numpy()
        if column == "activity":
            names[~named] = [NAMES[CATEGORIES[number]] for number in category[~named]]
        return pd.Series(names)


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
    rows = pass_rows(events, pass_id, RANK_PARTS)
    ranks, rank_lane = np.unique(
        events["rank"].to_numpy()[rows.recorded].astype(np.int64), return_inverse=True
    )
    lay_out = tensor_lanes if kind is LaneKind.TENSORS else execution_lanes
    below = lay_out(events, rows.written)
    drawn = np.concatenate([rows.recorded, below.rows])
    lane = np.concatenate([rank_lane.astype(np.int32), below.lane + np.int32(len(ranks))])
    category = categories_of(events, drawn, _category, _BY_PHASE)
    start = events["start_ns"].to_numpy(np.int64)[drawn]
    marked = events["start_ns"].to_numpy(np.int64)[rows.marks]
    end = _ends(start, events["dur_ns"].to_numpy(np.int64)[drawn], marked)
    hosts = _hosts(run, pass_id, ranks)
    names = (
        *(f"rank {rank} {host}".strip() for rank, host in zip(ranks, hosts, strict=True)),
        *below.names,
    )
    shape = (len(names), len(CATEGORIES))
    of_ranks = slice(len(rows.recorded))
    shares = blocked_shares(
        lane[of_ranks].astype(np.int64),
        category[of_ranks].astype(np.int64),
        start[of_ranks],
        end[of_ranks],
        blocked=CATEGORIES.index(BLOCKED),
        num_categories=len(CATEGORIES),
    )
    evaluations = run.table(EVALUATIONS.name)
    derived = derived_spans(
        (
            run.steps[_is(run.steps["pass_id"], pass_id)],
            evaluations[_is(evaluations["pass_id"], pass_id)],
        ),
        ranks,
        lane[of_ranks].astype(np.int64),
        start[of_ranks],
        end[of_ranks],
    )
    spans = Spans(
        np.concatenate([lane, derived.lane]),
        np.concatenate([category, _numbers(derived.category)]),
        np.concatenate([start, derived.start_ns]),
        np.concatenate([end, derived.end_ns]),
        shape,
        np.concatenate([drawn, np.full(len(derived.lane), -1, np.int32)]),
    )
    steps = step_times(run, pass_id)
    origin = int(start.min()) if len(start) else 0
    turns = run.table(TURNS.name)
    return Lanes(
        run=run,
        pass_id=pass_id,
        kind=kind,
        names=names,
        ranks=ranks,
        hosts=hosts,
        spans=spans,
        marks=_marks(run, pass_id, ranks, rows.marks, len(ranks) if below.names else 0),
        steps=steps,
        written_ns=written_spans(events, rows.written, steps.segments),
        origin_ns=origin,
        blocked_in=shares,
        axis=turn_axis(turns[_is(turns["pass_id"], pass_id)], steps, spans, origin),
    )


def own_times(busy: Float64s, blocked_in: Float64s) -> Float64s:
    """[lanes, categories, bins] Busy times less those of the categories inside; at least 0."""
    own = busy.copy()
    for inner, outer in INSIDE.items():
        own[:, CATEGORIES.index(outer)] -= busy[:, CATEGORIES.index(inner)]
    own -= blocked_in[None, :, None] * busy[:, [CATEGORIES.index(BLOCKED)]]
    return own.clip(min=0)


def _numbers(categories: tuple[str, ...]) -> Uint8s:
    return np.array([CATEGORIES.index(name) for name in categories], np.uint8)


def _is(column: pd.Series, value: str) -> NDArray[np.bool_]:
    answer: NDArray[np.bool_] = (column == value).to_numpy(bool)
    return answer


def _kind(activity: str) -> str:
    if activity in RANK_PARTS:
        return activity
    return next((kind for start, kind in _BEGINNINGS if activity.startswith(start)), "transfer")


def _category(activity: str) -> int:
    return CATEGORIES.index(_kind(activity))


def _ends(start: Ints, length: Ints, marked: Ints) -> Ints:
    """Ends of intervals; one without an end reaches to the last end or mark of all."""
    end: Ints = start + np.maximum(length, 0)
    if len(end):
        # In a hang, ranks that arrive late leave marks where no interval ends any more.
        end[length < 0] = max(end.max(), marked.max(initial=end.max()))
    return end


def _hosts(run: Run, pass_id: str, ranks: NDArray[np.integer]) -> tuple[str, ...]:
    hosts = run.ranks[_is(run.ranks["pass_id"], pass_id)].set_index("rank")["hostname"].to_dict()
    return tuple(str(hosts.get(rank, "")) for rank in ranks)


def _marks(
    run: Run, pass_id: str, ranks: NDArray[np.integer], written: Int32s, marks_lane: int
) -> Marks:
    """Gradients as they became ready, and the instants of Horovod's timeline on one lane."""
    ready = np.flatnonzero(_is(run.arrivals["pass_id"], pass_id))
    rank = run.arrivals["rank"].to_numpy()[ready]
    ready = ready[np.isin(rank, ranks)]
    lane = np.searchsorted(ranks, run.arrivals["rank"].to_numpy()[ready])
    time = np.concatenate(
        [
            run.arrivals["ready_ns"].to_numpy(np.int64)[ready],
            run.events["start_ns"].to_numpy(np.int64)[written],
        ]
    )
    order = np.argsort(time, kind="stable").astype(np.int32)
    lanes = np.concatenate([lane, np.full(len(written), marks_lane)]).astype(np.int32)
    rows = np.concatenate([ready, written]).astype(np.int32)
    return Marks(time[order], lanes[order], order < len(ready), rows[order])


def blocked_shares(
    lane: Ints, category: Ints, start: Ints, end: Ints, *, blocked: int, num_categories: int
) -> Float64s:
    """[categories] The share of blocked time inside each phase; 0 in all where there is none.

    Args:
        lane: Lane of each interval of the ranks.
        category: Category of each; phases of a rank do not overlap.
        start: Start of each, ns.
        end: End of each, ns.
        blocked: The category of blocked time.
        num_categories: Number of categories.
    """
    shares = np.zeros(num_categories)
    inner, outer = np.flatnonzero(category == blocked), np.flatnonzero(category != blocked)
    if not len(inner) or not len(outer):
        return shares
    outer = outer[np.lexsort((start[outer], lane[outer]))]
    # One axis for all lanes: each begins where the one before it has ended.
    width = int(end.max() - start.min()) + 1
    begin = start - start.min() + lane * width
    place = np.searchsorted(begin[outer], begin[inner], side="right") - 1
    around = outer[place.clip(min=0)]
    inside = np.minimum(end[inner], end[around]) - start[inner]
    is_inside = (place >= 0) & (lane[around] == lane[inner]) & (inside > 0)
    np.add.at(shares, category[around[is_inside]], inside[is_inside])
    total = float((end[inner] - start[inner]).sum())
    return shares / total if total > 0 else shares
