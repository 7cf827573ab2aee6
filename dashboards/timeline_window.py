"""The window of a timeline view on the time axis, and its change by gestures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdprof.dashboards.view import View
from hvdprof.figures.timeline.timeline_lanes import Lanes

_SHORTEST_NS = 100
_MARGIN = 0.05

MEASURE = "measure"
"""The value of ``drag`` in the address for measuring by dragging."""

MOVES: dict[str, tuple[float, float]] = {
    "left": (-0.5, -0.5),
    "right": (0.5, 0.5),
    "in": (0.25, -0.25),
    "out": (-0.5, 0.5),
}
"""Shift of each end of the window, as a share of its length."""


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
    """The window in the address: ``from`` and ``to``, a ``step``, or the whole pass."""
    first, last = view.whole("from"), view.whole("to")
    if first is not None and last is not None and first < last:
        return fitted(first, last, lanes.length_ns)
    step = view.whole("step")
    places = [] if step is None else (lanes.steps.number == step).nonzero()[0]
    if len(places):
        start = int(lanes.steps.start_ns[places[0]]) - lanes.origin_ns
        stop = int(lanes.steps.end_ns[places[0]]) - lanes.origin_ns
        margin = round((stop - start) * _MARGIN)
        return fitted(start - margin, stop + margin, lanes.length_ns)
    return Window(0, lanes.length_ns)


def measured_of(view: View) -> Window | None:
    """The measured span of time, if dragging measures and a span was drawn."""
    first, last = view.whole("measure_from"), view.whole("measure_to")
    if not is_measuring(view) or first is None or last is None or first >= last:
        return None
    return Window(first, last)


def is_measuring(view: View) -> bool:
    """Whether a drag measures instead of zooming."""
    return view.text("drag") == MEASURE


def drawn_span(relayout: Mapping[str, object] | None) -> Window | None:
    """The span of time just drawn by dragging; ``None`` for other gestures."""
    shapes = (relayout or {}).get("shapes")
    last = shapes[-1] if isinstance(shapes, list) and shapes else None
    if not isinstance(last, dict):
        return None
    return _window_ms([last.get("x0"), last.get("x1")])


def fitted(first_ns: int, last_ns: int, length_ns: int) -> Window:
    """A window within a pass of that length, shifted rather than cut where possible."""
    wanted = min(max(last_ns - first_ns, _SHORTEST_NS), length_ns)
    first = min(max(first_ns, 0), length_ns - wanted)
    return Window(first, first + wanted)


def dragged(relayout: Mapping[str, object] | None, length_ns: int) -> Window | None:
    """The window after a gesture in the figure; ``None`` for gestures off the time axis."""
    given = relayout or {}
    if given.get("xaxis.autorange"):
        return Window(0, length_ns)
    ends = [given.get("xaxis.range[0]"), given.get("xaxis.range[1]")]
    if "xaxis.range" in given and isinstance(given["xaxis.range"], list):
        ends = given["xaxis.range"][:2]
    window = _window_ms(ends)
    return None if window is None else fitted(window.first_ns, window.last_ns, length_ns)


def moved(window: Window, move: str, length_ns: int) -> Window:
    """The window after a button: one of ``MOVES``, or the whole pass for any other."""
    if move not in MOVES:
        return Window(0, length_ns)
    first, last = MOVES[move]
    length = window.length_ns
    return fitted(
        window.first_ns + round(first * length), window.last_ns + round(last * length), length_ns
    )


def at_window(view: View, window: Window, length_ns: int) -> View:
    """The view with that window in its address; the whole pass needs no window."""
    if window.length_ns >= length_ns:
        return view.changed(**{"from": None, "to": None, "step": None})
    return view.changed(**{"from": window.first_ns, "to": window.last_ns, "step": None})


def _window_ms(ends: Sequence[object]) -> Window | None:
    numbers = [float(end) for end in ends if isinstance(end, int | float)]
    if len(numbers) != 2 or not all(math.isfinite(1e6 * number) for number in numbers):
        return None
    first, last = sorted(round(1e6 * number) for number in numbers)
    return Window(first, last)
