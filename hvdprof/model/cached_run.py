"""A run whose largest tables stay in the files that keep them until somebody asks for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Protocol

import pandas as pd

from hvdprof.model.run import Run
from hvdprof.model.table_catalogue import TABLES
from hvdprof.model.tables.run_tables import EVENTS


class KeptRows(Protocol):
    """The rows of a table of one file, which go through memory piece by piece."""

    def __len__(self) -> int:
        """The number of rows."""

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The rows in their order, of all columns or of some."""


class LazyTables(Mapping[str, pd.DataFrame]):
    """Tables by name, of which some are made when they are asked for, once."""

    def __init__(
        self,
        ready: Mapping[str, pd.DataFrame],
        made: Mapping[str, Callable[[], pd.DataFrame]],
    ) -> None:
        self._ready = dict(ready)
        self._made = dict(made)

    def __getitem__(self, name: str) -> pd.DataFrame:
        """The table of a name."""
        if name not in self._ready and name in self._made:
            self._ready[name] = self._made[name]()
        return self._ready[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is a table of a name; none is made to find out."""
        return name in self._ready or name in self._made

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter({**self._ready, **self._made})

    def __len__(self) -> int:
        """The number of tables."""
        return len({**self._ready, **self._made})


class KeptRun(Run):
    """As ``Run``; large tables are read when somebody asks for them.

    Attributes:
        kept: By file, its large tables by name.
        counts: The number of rows of each table that is made when it is asked for.
    """

    kept: Mapping[str, Mapping[str, KeptRows]] = MappingProxyType({})
    counts: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of(
        cls,
        run: Run,
        kept: Mapping[str, Mapping[str, KeptRows]],
        made: Mapping[str, Callable[[], pd.DataFrame]],
    ) -> "KeptRun":
        """A run with tables that are not made yet.

        Args:
            run: All that is there.
            kept: By file, its large tables by name.
            made: Makes the tables that are not in ``run`` as a whole, EVENTS among them.
        """
        ready = {name: frame for name, frame in run.others.items() if name not in made}
        values: dict[str, Any] = {field.name: getattr(run, field.name) for field in fields(Run)}
        counts = {
            name: len(run.table(name))
            + sum(len(tables[name]) for tables in kept.values() if name in tables)
            for name in made
        }
        values |= {"others": LazyTables(ready, made), "kept": kept, "counts": counts}
        # Its slot stays empty until __getattr__ is asked.
        del values[EVENTS.name]
        made_run = cls.__new__(cls)
        for name, value in values.items():
            object.__setattr__(made_run, name, value)
        return made_run

    def __getattr__(self, name: str) -> Any:
        """EVENTS, when they are asked for first."""
        if name != EVENTS.name:
            raise AttributeError(name)
        events = self.others[EVENTS.name]
        object.__setattr__(self, EVENTS.name, events)
        return events

    @property
    def row_counts(self) -> dict[str, int]:
        """As ``Run.row_counts``, from what the files say of their rows: no table is read for it."""
        found = {}
        for table in TABLES:
            number = self.counts.get(table.name)
            found[table.name] = len(self.table(table.name)) if number is None else number
        return {name: number for name, number in found.items() if number}

    def table(self, name: str) -> pd.DataFrame:
        """As ``Run.table``, without making another table than that.

        Raises:
            UsageError: No table has that name.
        """
        return self.others[name] if name in self.others else self._without_events.table(name)

    @property
    def _without_events(self) -> Run:
        names = [field.name for field in fields(Run) if field.name != EVENTS.name]
        return Run(**{name: getattr(self, name) for name in names}, events=EVENTS.empty())
