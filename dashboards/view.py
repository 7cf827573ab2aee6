"""What the address says: page, run, and everything else that a shared link must bring back."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

_KEY = re.compile(r"[a-z_]{1,20}")
_LONGEST_VALUE = 400
_MOST_KEYS = 20
_RUN = "run"


@dataclass(frozen=True, slots=True)
class View:
    """One view of the dashboard; it and its address say the same.

    ``values`` holds the query of the address by key, such as ``run``, ``np`` and ``pass``. They
    come from the browser: nothing in them is a path or otherwise to be trusted.
    """

    path: str
    values: Mapping[str, str]

    @classmethod
    def of_address(cls, pathname: str | None, search: str | None) -> "View":
        """The view at an address; what cannot be part of a view is left out.

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
        """The id of the run; ``None`` where no run is there to be shown."""
        return self.values.get(_RUN)

    @property
    def np(self) -> int | None:
        """The number of ranks; ``None`` where the address names none."""
        return self.whole("np")

    @property
    def pass_id(self) -> str | None:
        """The id of the pass; ``None`` where the address names none. May not exist."""
        return self.values.get("pass")

    def text(self, key: str) -> str | None:
        """One value as it stands in the address."""
        return self.values.get(key)

    def whole(self, key: str) -> int | None:
        """One value as a whole number; ``None`` where it is none, or beyond 64 bits."""
        value = self.values.get(key, "")
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            return None
        return int(value)

    def changed(self, **changes: str | int | None) -> "View":
        """The view with other values; ``None`` takes one out.

        Another run starts afresh: what was chosen in the old one means nothing there.
        """
        kept = dict(self.values)
        if changes.get(_RUN, self.run) != self.run:
            kept = {}
        for key, value in changes.items():
            kept.pop(key, None)
            if value is not None and value != "":
                kept[key] = str(value)
        return View(self.path, kept)

    def at(self, path: str) -> "View":
        """The same run, number of ranks and pass on another page."""
        return View(path, {key: self.values[key] for key in (_RUN, "np") if key in self.values})

    @property
    def search(self) -> str:
        """The query of the address, ``?run=...``; empty where there is nothing to say."""
        return f"?{urlencode(dict(self.values))}" if self.values else ""

    @property
    def href(self) -> str:
        """The address without host: what a link to this view names."""
        return self.path + self.search
