"""Which rows of EVENTS a pass draws, and on which lanes; some rows are looked at at a time.

Names are compared by the codes of their categories, so that no column is ever there as text.
Tested in ``tests/figures/timeline/test_timeline_lanes.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.figures.timeline.derived_spans import lanes_without_overlap
from hvdprof.figures.timeline.viewport import Ints
from hvdprof.model.arrays import Bools, Int32s, Uint8s

_AT_ONCE = 1 << 18
_MOST_APART = 500_000
_MOST_NEGOTIATION_LANES = 4
_DRAWN_PHASES = ("negotiation", "operation", "activity")

Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class PassRows:
    """Rows of EVENTS by what they are: phases of ranks, Horovod's intervals, Horovod's instants."""

    recorded: Int32s
    written: Int32s
    marks: Int32s


@dataclass(frozen=True, slots=True)
class LanesBelow:
    """Lanes below the ranks: their names, the rows that are drawn, and the lane of each."""

    names: tuple[str, ...]
    rows: Int32s
    lane: Int32s


def pass_rows(events: pd.DataFrame, pass_id: str, rank_parts: Sequence[str]) -> PassRows:
    """The rows of a pass."""
    own = _flagged(events["pass_id"], pass_id.__eq__)
    recorder = _flagged(events["source"], "recorder".__eq__)
    timeline = _flagged(events["source"], "timeline".__eq__)
    part = _flagged(events["phase"], "part".__eq__)
    drawn = _flagged(events["phase"], _DRAWN_PHASES.__contains__)
    mark = _flagged(events["phase"], "mark".__eq__)
    named = _flagged(events["activity"], tuple(rank_parts).__contains__)
    found: list[list[Int32s]] = [[], [], []]
    for here in _slices(len(events)):
        in_pass = own(here)
        written = in_pass & timeline(here)
        kinds = (
            in_pass & recorder(here) & part(here) & named(here),
            written & drawn(here),
            written & mark(here),
        )
        for rows, kind in zip(found, kinds, strict=True):
            rows.append((np.flatnonzero(kind) + here.start).astype(np.int32))
    return PassRows(*(_joined(rows) for rows in found))


def categories_of(
    events: pd.DataFrame, rows: Int32s, kind: Callable[[str], int], phases: dict[str, int]
) -> Uint8s:
    """The number of the category of each row.

    Args:
        events: Rows of EVENTS.
        rows: The rows asked for.
        kind: The category by the name of an activity.
        phases: The categories of phases that decide it alone.
    """
    activity, names = codes_of(events["activity"])
    phase, phase_names = codes_of(events["phase"])
    by_activity = np.array([kind(name) for name in names] + [0], np.uint8)
    undecided = 255
    by_phase = np.array(
        [phases.get(name, undecided) for name in phase_names] + [undecided], np.uint8
    )
    category = np.empty(len(rows), np.uint8)
    for part in _slices(len(rows)):
        of_phase = by_phase[phase[rows[part]]]
        of_activity = by_activity[activity[rows[part]]]
        category[part] = np.where(of_phase == undecided, of_activity, of_phase)
    return category


def execution_lanes(events: pd.DataFrame, rows: Int32s) -> LanesBelow:
    """Negotiations that overlap on up to four lanes, executions on one below.

    Further ones share the last of the four; so do all where there are very many. Of a fused
    execution only the rows of its first tensor are drawn.
    """
    if not len(rows):
        return LanesBelow((), rows, rows)
    negotiation = _flagged_at(events["phase"], rows, "negotiation")
    first_tensor = _first_tensors(events, rows)
    segment, _ = codes_of(events["segment"])
    tensor, _ = codes_of(events["tensor"])
    fusion = events["fusion_id"].to_numpy()
    known, first = first_tensor
    drawn, lane = [], []
    for part in _slices(len(rows)):
        here = rows[part]
        is_drawn = np.ones(len(here), bool)
        if len(known):
            key = _execution(segment[here], fusion[here])
            place = np.searchsorted(known, key).clip(max=len(known) - 1)
            is_known = (known[place] == key) & (fusion[here] >= 0)
            is_drawn = ~is_known | (tensor[here] == first[place])
        is_negotiation = negotiation(part)
        is_drawn |= is_negotiation
        drawn.append(here[is_drawn])
        lane.append(np.where(is_negotiation[is_drawn], 0, 1).astype(np.int32))
    return _side_by_side(events, _joined(drawn), _joined(lane))


def _side_by_side(events: pd.DataFrame, rows: Int32s, lane: Int32s) -> LanesBelow:
    """The rows with negotiations that overlap apart; ``lane`` is 0 for negotiations, else 1."""
    places = np.flatnonzero(lane == 0)
    number = np.zeros(len(places), np.int64)
    if len(places) <= _MOST_APART:
        start = events["start_ns"].to_numpy(np.int64)[rows[places]]
        length = events["dur_ns"].to_numpy(np.int64)[rows[places]]
        end = np.where(length < 0, np.iinfo(np.int64).max, start + length)
        order = np.argsort(start, kind="stable")
        number[order] = lanes_without_overlap(start[order], end[order])
        number = number.clip(max=_MOST_NEGOTIATION_LANES - 1)
    most = int(number.max(initial=0)) + 1
    laid = np.full(len(rows), most, np.int32)
    laid[places] = number
    names = ("negotiation", *(f"negotiation {at}" for at in range(2, most + 1)), "executions")
    return LanesBelow(names, rows, laid)


def tensor_lanes(events: pd.DataFrame, rows: Int32s) -> LanesBelow:
    """A lane for each tensor, in order of their first intervals."""
    if not len(rows):
        return LanesBelow((), rows, rows)
    tensor, names = codes_of(events["tensor"])
    start = events["start_ns"].to_numpy(np.int64)
    most = np.iinfo(np.int64).max
    first = np.full(len(names) + 1, most)
    place = np.full(len(names) + 1, most)
    for part in _slices(len(rows)):
        np.minimum.at(first, tensor[rows[part]], start[rows[part]])
    for part in _slices(len(rows)):
        here = rows[part]
        begins = here[start[here] == first[tensor[here]]]
        np.minimum.at(place, tensor[begins], begins)
    in_time = np.lexsort((place, first))
    in_time = in_time[first[in_time] < most]
    lane_of = np.zeros(len(names) + 1, np.int32)
    lane_of[in_time] = np.arange(len(in_time))
    lane = np.empty(len(rows), np.int32)
    for part in _slices(len(rows)):
        lane[part] = lane_of[tensor[rows[part]]]
    # A missing name has the code -1, which is the last place.
    return LanesBelow(tuple([*names, "nan"][place] for place in in_time), rows, lane)


def written_spans(events: pd.DataFrame, rows: Int32s, segments: tuple[str, ...]) -> Ints:
    """First start and last end of Horovod's events in each segment; -1 where it has none."""
    segment, names = codes_of(events["segment"])
    numbers = {name: number for number, name in enumerate(segments)}
    number_of = np.array([numbers.get(name, -1) for name in names] + [-1])
    start = events["start_ns"].to_numpy(np.int64)
    length = events["dur_ns"].to_numpy(np.int64)
    spans = np.full((len(segments), 2), -1, dtype=np.int64)
    for part in _slices(len(rows)):
        here = rows[part]
        number = number_of[segment[here]]
        for at in np.unique(number[number >= 0]).tolist():
            own = here[number == at]
            begin, end = start[own].min(), (start[own] + length[own].clip(min=0)).max()
            known = spans[at, 0] >= 0
            spans[at] = (min(begin, spans[at, 0]) if known else begin, max(end, spans[at, 1]))
    return spans


def codes_of(column: pd.Series) -> tuple[Codes, list[str]]:
    """The codes of a column of categories, -1 where a name is missing, and the names."""
    values = cast("pd.Categorical[Any]", column.array)
    return values.codes, [str(name) for name in values.categories]


def _first_tensors(events: pd.DataFrame, rows: Int32s) -> tuple[Ints, Codes]:
    """Executions in order, and the tensor of the first operation of each."""
    is_operation = _flagged_at(events["phase"], rows, "operation")
    segment, _ = codes_of(events["segment"])
    tensor, _ = codes_of(events["tensor"])
    fusion = events["fusion_id"].to_numpy()
    keys, tensors = [], []
    for part in _slices(len(rows)):
        here = rows[part][is_operation(part)]
        here = here[fusion[here] >= 0]
        key, first = np.unique(_execution(segment[here], fusion[here]), return_index=True)
        keys.append(key)
        tensors.append(tensor[here[first]])
    # The first of equal keys is that of the first part.
    known, first = np.unique(np.concatenate(keys), return_index=True)
    return known, np.concatenate(tensors)[first]


def _execution(segment: Codes, fusion: Codes) -> Ints:
    """A number for each execution: segments count their executions anew."""
    numbers: Ints = (segment.astype(np.int64) << 40) + fusion
    return numbers


def _flagged(column: pd.Series, is_wanted: Callable[[str], bool]) -> Callable[[slice], Bools]:
    """For any rows, whether their names are wanted."""
    codes, names = codes_of(column)
    wanted = np.array([bool(is_wanted(name)) for name in names] + [False], dtype=bool)
    return lambda here: wanted[codes[here]]


def _flagged_at(column: pd.Series, rows: Int32s, name: str) -> Callable[[slice], Bools]:
    codes, names = codes_of(column)
    wanted = np.array([label == name for label in names] + [False], dtype=bool)
    return lambda part: wanted[codes[rows[part]]]


def _slices(number: int) -> Iterator[slice]:
    for first in range(0, number, _AT_ONCE):
        yield slice(first, min(first + _AT_ONCE, number))


def _joined(parts: Sequence[Int32s]) -> Int32s:
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
