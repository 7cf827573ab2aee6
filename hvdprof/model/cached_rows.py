"""Large tables that stay in the cache until they are used, as a whole or piece by piece."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd
import pyarrow as pa

from hvdprof.model.schema import Table


class CachedRows(Protocol):
    """A table of one file in the cache, whose rows go through memory piece by piece.

    Attributes:
        table: The declared table.
        source: The file whose rows it has.
        pass_id: What its rows have as ``pass_id``: the file as the user named it.
    """

    table: Table
    source: Path
    pass_id: str

    def __len__(self) -> int:
        """The number of rows."""

    @property
    def path(self) -> Path:
        """The Parquet file."""

    @property
    def schema(self) -> pa.Schema:
        """The columns as they stand in the file."""

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows in their order as Arrow, of all columns or of some."""

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The rows in their order, of all columns or of some; at least one frame."""

    def frame(self) -> pd.DataFrame:
        """All rows at once."""


class LazyFrames(Mapping[str, pd.DataFrame]):
    """Tables by name, of which some are loaded at their first use.

    Args:
        ready: Tables in memory.
        loaders: Load the other tables.
        num_rows: The number of rows of those of them whose number is known.
    """

    def __init__(
        self,
        ready: Mapping[str, pd.DataFrame],
        loaders: Mapping[str, Callable[[], pd.DataFrame]],
        num_rows: Mapping[str, int],
    ) -> None:
        self._ready = dict(ready)
        self._loaders = dict(loaders)
        self.num_rows = {name: len(frame) for name, frame in ready.items()} | dict(num_rows)

    @property
    def unread(self) -> frozenset[str]:
        """The names of tables that no one has used yet, and whose number of rows is unknown."""
        return frozenset(self._loaders) - frozenset(self._ready) - frozenset(self.num_rows)

    def __getitem__(self, name: str) -> pd.DataFrame:
        """The table of a name."""
        if name not in self._ready and name in self._loaders:
            self._ready[name] = self._loaders[name]()
        return self._ready[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is a table of a name; this loads none."""
        return name in self._ready or name in self._loaders

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter({**self._ready, **self._loaders})

    def __len__(self) -> int:
        """The number of tables."""
        return len({**self._ready, **self._loaders})
