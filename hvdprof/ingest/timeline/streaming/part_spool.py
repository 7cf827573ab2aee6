"""Parts of a file kept on disk, in their order, until all of it has been read."""

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Generic, Self, TypeVar

import pandas as pd

_Part = TypeVar("_Part")


class PartSpool(Generic[_Part]):
    """A temporary file without a name, gone when it is closed; no other process can write to it."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by __exit__)
        self._num_parts = 0
        self._categories: list[pd.CategoricalDtype] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, part: _Part) -> None:
        """Keep another part.

        Raises:
            OSError: The disk is full.
        """
        _Pickler(self._file, self._categories).dump(part)
        self._num_parts += 1

    def parts(self) -> Iterator[_Part]:
        """The parts, each when it is asked for."""
        self._file.seek(0)
        for _ in range(self._num_parts):
            yield _Unpickler(self._file, self._categories).load()


class _Pickler(pickle.Pickler):
    """Leaves categories in memory: the parts of a file share them."""

    def __init__(self, file: IO[bytes], categories: list[pd.CategoricalDtype]) -> None:
        super().__init__(file, protocol=5)
        self._categories = categories
        self._numbers = {id(one): number for number, one in enumerate(categories)}

    def persistent_id(self, obj: object) -> int | None:
        if not isinstance(obj, pd.CategoricalDtype):
            return None
        if id(obj) not in self._numbers:
            self._numbers[id(obj)] = len(self._categories)
            self._categories.append(obj)
        return self._numbers[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], categories: list[pd.CategoricalDtype]) -> None:
        super().__init__(file)
        self._categories = categories

    def persistent_load(self, pid: int) -> pd.CategoricalDtype:
        return self._categories[pid]
