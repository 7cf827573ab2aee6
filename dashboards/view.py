"""The view in the address: page, run, and everything else that a shared link restores."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

import numpy as np

from hvdprof.figures.timeline.timeline_lanes import CATEGORIES, LaneKind, Lanes
from hvdprof.figures.timeline.timeline_rows import RowChoice

_KEY = re.compile(r"[a-z_]{1,20}")
_LONGEST_VALUE = 400
_MOST_KEYS = 20
_RUN = "run"

CELL_KEYS = ("np", "model", "toggles")
"""The keys of the cell that all pages of a run show, chosen on the first page."""

LAUNCH_KEY, PASS_KEY = "launch", "pass"
"""What is chosen of a cell: a launch, or on the timeline the pass that holds it; never both."""


@dataclass(frozen=True, slots=True)
class View:
    """One view of the dashboard; view and address are equivalent.

    ``values`` holds the query of the address by key, such as ``run``, ``np`` and ``pass``. They
    come from the browser: never use them as paths or trust them otherwise.
    """

    path: str
    values: Mapping[str, str]

    @classmethod
    def of_address(cls, pathname: str | None, search: str | None) -> "View":
        """The view at an address; anything else is ignored.

        Args:
            pathname: Path of the address, such as ``/timeline``.
            search: Query of the address, such as ``?run=20261120-224841-quick&np=4``.
        """
        pairs = parse_qsl((search or "").removeprefix("?"), errors="replace")[:_MOST_KEYS]
        values = {
            key: value
            for key, value in pairs
            if _KEY.fullmatch(key) and len(value) <= _LONGEST_VALUE
        }
        return cls(pathname or "/", values)

    @property
    def run(self) -> str | None:
        """The id of the run; ``None`` without any run."""
        return self.values.get(_RUN)

    @property
    def np(self) -> int | None:
        """The number of ranks; ``None`` where the address names none."""
        return self.whole("np")

    @property
    def pass_id(self) -> str | None:
        """The id of the pass; ``None`` where the address names none. May not exist."""
        return self.values.get(PASS_KEY)

    def text(self, key: str) -> str | None:
        """One value of the address."""
        return self.values.get(key)

    def whole(self, key: str) -> int | None:
        """One value as a whole number; ``None`` where it is not one, or beyond 64 bits."""
        value = self.values.get(key, "")
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            return None
        return int(value)

    def changed(self, **changes: str | int | None) -> "View":
        """The view with other values; ``None`` removes one.

        Another run resets all choices, because they do not apply to it. Another cell, launch or
        pass resets the launch and the pass.
        """
        values = dict(self.values)
        if any(key in changes for key in (*CELL_KEYS, LAUNCH_KEY, PASS_KEY)):
            values.pop(LAUNCH_KEY, None)
            values.pop(PASS_KEY, None)
        if self.run is not None and changes.get(_RUN, self.run) != self.run:
            values = {}
        for key, value in changes.items():
            values.pop(key, None)
            if value is not None and value != "":
                values[key] = str(value)
        return View(self.path, values)

    def at(self, path: str) -> "View":
        """The same run, cell and launch on another page."""
        keys = (_RUN, *CELL_KEYS, LAUNCH_KEY, PASS_KEY)
        return View(path, {key: self.values[key] for key in keys if key in self.values})

    @property
    def search(self) -> str:
        """The query of the address, ``?run=...``; empty without values."""
        return f"?{urlencode(dict(self.values))}" if self.values else ""

    @property
    def href(self) -> str:
        """The address without host, for links to this view."""
        return self.path + self.search


_SHORTEST_NS = 1_000
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


def window_of(view: View, lanes: Lanes, opening: Window | None = None) -> Window:
    """The window in the address: ``from`` to ``to``, a ``step``, a ``segment``, or ``opening``.

    Without an opening, and with ``all`` in the address, it is the pass. Segments of a pass number
    their steps anew: a ``step`` is that of the ``segment`` in the address, and without one that of
    the first segment which has it.
    """
    first, last = view.whole("from"), view.whole("to")
    if first is not None and last is not None and first < last:
        return fitted(first, last, lanes.length_ns)
    steps = lanes.steps
    whole = Window(0, lanes.length_ns)
    own = np.ones(len(steps.number), bool)
    if view.text("all"):
        return whole
    if view.text("segment") in steps.segments:
        own &= steps.segment == steps.segments.index(str(view.text("segment")))
    elif view.whole("step") is None:
        return opening or whole
    if view.whole("step") is not None:
        own &= steps.number == view.whole("step")
    places = own.nonzero()[0]
    if not len(places):
        return whole
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
