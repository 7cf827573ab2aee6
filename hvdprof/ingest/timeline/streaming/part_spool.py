"""Parts of a file kept on disk, in their order, until all of it has been read."""

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa

_Part = TypeVar("_Part")
_CODEC = "lz4"


class PartSpool(Generic[_Part]):
    """A nameless file of parts, gone when it is closed; nobody else can have written into it."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed by __exit__)
        self._lengths: list[tuple[int, int]] = []

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
        content = pickle.dumps(part, protocol=5)
        packed = pa.compress(content, codec=_CODEC, asbytes=True)
        self._file.write(packed)
        self._lengths.append((len(packed), len(content)))

    def parts(self) -> Iterator[_Part]:
        """The parts, each when it is asked for."""
        self._file.seek(0)
        for packed, length in self._lengths:
            content = pa.decompress(self._file.read(packed), length, codec=_CODEC, asbytes=True)
            yield pickle.loads(content)
