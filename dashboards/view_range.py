"""The window of a timeline view on the time axis, and what of it is chosen, from the address."""

from dataclasses import dataclass

import numpy as np

from hvdprof.dashboards.view import View
from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, LaneKind, Lanes
from hvdprof.figures.timeline.timeline_rows import RowChoice

_SHORTEST_NS = 100
_MARGIN = 0.05
_MOST_OPENED = 64


@dataclass(frozen=True, slots=True)
class Window:
    """Start and end, ns since the start of the pass."""

    first_ns: int
    last_ns: int

    @property
    def length_ns(self) -> int:
        """Its length."""
        return self.last_ns - self.first_ns


def window_of(view: View, lanes: Lanes) -> Window:
    """The window in the address: ``from`` to ``to``, a ``step``, a ``segment``, or the pass.

    Segments of a pass number their steps anew: a ``step`` is that of the ``segment`` in the
    address, and without one that of the first segment which has it.
    """
    first, last = view.whole("from"), view.whole("to")
    if first is not None and last is not None and first < last:
        return fitted(first, last, lanes.length_ns)
    steps = lanes.steps
    own = np.ones(len(steps.number), bool)
    if view.text("segment") in steps.segments:
        own &= steps.segment == steps.segments.index(str(view.text("segment")))
    elif view.whole("step") is None:
        return Window(0, lanes.length_ns)
    if view.whole("step") is not None:
        own &= steps.number == view.whole("step")
    places = own.nonzero()[0]
    if not len(places):
        return Window(0, lanes.length_ns)
    one = places[:1] if view.whole("step") is not None else places
    start = int(steps.start_ns[one].min()) - lanes.origin_ns
    stop = int(steps.end_ns[one].max()) - lanes.origin_ns
    margin = round((stop - start) * _MARGIN)
    return fitted(start - margin, stop + margin, lanes.length_ns)


def fitted(first_ns: int, last_ns: int, length_ns: int) -> Window:
    """A window within a pass of that length, shifted rather than cut where possible."""
    wanted = min(max(last_ns - first_ns, _SHORTEST_NS), length_ns)
    first = min(max(first_ns, 0), length_ns - wanted)
    return Window(first, first + wanted)


def selection_of(view: View) -> Window | None:
    """The selected range of time; ``None`` without one."""
    first, last = view.whole("sel_from"), view.whole("sel_to")
    if first is None or last is None or first >= last:
        return None
    return Window(first, last)


def lane_kind_of(view: View) -> LaneKind:
    """The lanes below the ranks: by tensor where it is chosen, or where one is named."""
    is_by_tensor = view.text("lanes") == LaneKind.TENSORS or bool(view.text("tensor"))
    return LaneKind.TENSORS if is_by_tensor else LaneKind.EXECUTIONS


def row_choice_of(view: View) -> RowChoice:
    """Which rows the address asks for."""
    opened = (view.text("open") or "").split(",")[:_MOST_OPENED]
    hidden = set((view.text("hide") or "").split(",")) & set(CATEGORIES)
    pins = (view.text("pins") or "").split(",")
    return RowChoice(
        tensor=view.text("tensor") or "",
        ranks=view.text("ranks") or "",
        opened=frozenset(name for name in opened if name),
        pins=tuple(int(pin) for pin in pins if pin.isascii() and pin.isdigit() and len(pin) < 7),
        hidden=frozenset(hidden),
    )
