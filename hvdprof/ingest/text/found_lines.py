"""Where patterns find lines of a part of a file, and which readers want which of them.

Tested in ``tests/ingest/text/test_printed_lines.py``.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hvdprof.ingest.text.line_filter import any_of

Patterns = tuple[str, ...]
"""What each of some readers wants."""

FEWEST_SEARCHED = 200
"""Of fewer lines each reader looks at all: making a search ready takes a millisecond."""


class Searchable(Protocol):
    """Lines in which patterns are looked for."""

    def __len__(self) -> int:
        """How many they are."""

    def places(self, pattern: str, among: list[int] | None = None) -> npt.NDArray[np.int64]:
        """Where those are that a pattern finds, among all or some."""


class FoundLines:
    """Looks for each pattern once.

    Args:
        part: The lines.

    Attributes:
        place: The line that is being read.
    """

    def __init__(self, part: Searchable) -> None:
        self.place = 0
        self._part = part
        self._places: dict[str, list[int]] = {}
        self._takers: dict[Patterns, dict[int, list[int]]] = {}

    def places(self, pattern: str) -> list[int]:
        """Where the lines are that a pattern finds."""
        if pattern not in self._places:
            self._places[pattern] = self._part.places(pattern).tolist()
        return self._places[pattern]

    def takers(self, patterns: Patterns) -> Sequence[int]:
        """Which readers want the line that is being read; all of them where lines are few."""
        if len(self._part) < FEWEST_SEARCHED:
            return range(len(patterns))
        of_place = self._takers.get(patterns)
        if of_place is None:
            of_place = self._takers[patterns] = self._takers_by_place(patterns)
        return of_place.get(self.place, of_place[-1])

    def _takers_by_place(self, patterns: Patterns) -> dict[int, list[int]]:
        """By place, and at -1 those who want every line."""
        places = self.places(any_of(patterns))
        of_place = {-1: [number for number, pattern in enumerate(patterns) if not pattern]}
        if len(places) < FEWEST_SEARCHED:
            everyone = list(range(len(patterns)))
            return dict.fromkeys(places, everyone) | of_place
        for number, pattern in enumerate(patterns):
            for place in self._part.places(pattern, places).tolist() if pattern else places:
                of_place.setdefault(place, []).append(number)
        return of_place
