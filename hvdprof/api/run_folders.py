"""Which run directories lie below a folder, and what the search passed over."""

import os
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.layout import MANIFEST_NAME

MOST_LEVELS = 4
"""Levels of folders below the given one in which runs are looked for."""

_MOST_FOLDERS = 5_000
_MOST_NAMES = 200_000
"""A home directory or a file system is not searched whole."""

_HEAD_BYTES = 4_096

_FILES = "files that are no run"
_HIDDEN = "hidden folders"
_UNREADABLE = "folders that cannot be read"
_LINKS = "links to a folder above them or searched already"
_REST = f"folders beyond the first {_MOST_FOLDERS:,} or {_MOST_NAMES:,} names"


class FoundRuns(NamedTuple):
    """Run directories, the nearest first, then by name; and the number passed over, by reason."""

    folders: list[Path]
    skipped: Mapping[str, int]


def runs_below(folder: Path, levels: int = MOST_LEVELS) -> FoundRuns:
    """The run directories below a folder; none is read, and none is searched for further ones.

    Args:
        folder: The folder.
        levels: Levels of folders below it that are looked at; 1 for those in it alone.

    Raises:
        UnreadableInputError: The folder does not exist or cannot be listed.
    """
    if not folder.is_dir():
        raise UnreadableInputError(
            f"{folder} is not a folder.", hint="hvdprof bench makes it with its first run."
        )
    search = _Search(folder, levels)
    try:
        search.open(*search.waiting.popleft())
    except OSError as error:
        raise UnreadableInputError(f"Could not list {folder}: {error.strerror}.") from error
    for _ in range(_MOST_FOLDERS):
        if not search.waiting or search.num_names > _MOST_NAMES:
            break
        search.look(*search.waiting.popleft())
    if search.waiting:
        search.skipped[_REST] += len(search.waiting)
    return FoundRuns(search.found, search.skipped)


class _Search:
    """The search below a folder: what is found, and the folders that wait to be looked at.

    A folder is named by its path, and by its place: the same without links.
    """

    def __init__(self, folder: Path, levels: int) -> None:
        place = folder.resolve()
        self.waiting = deque([(folder, place, 0)])
        self.found: list[Path] = []
        self.skipped: Counter[str] = Counter()
        self.num_names = 0
        self._levels = levels
        self._seen = {place}

    def look(self, folder: Path, place: Path, level: int) -> None:
        """Note a run directory; open any other folder."""
        try:
            if _is_run(folder, level):
                self.found.append(folder)
            elif level == self._levels:
                self.skipped[f"folders {level} levels down, not opened"] += 1
            else:
                self.open(folder, place, level)
        except OSError:
            self.skipped[_UNREADABLE] += 1

    def open(self, folder: Path, place: Path, level: int) -> None:
        """Let the folders in a folder wait, those behind links last."""
        with os.scandir(folder) as entries:
            inside = sorted(entries, key=lambda entry: (entry.is_symlink(), entry.name))
        self.num_names += len(inside)
        for entry in inside:
            if reason := _reason(entry):
                self.skipped[reason] += 1
                continue
            target = place / entry.name
            target = target.resolve() if entry.is_symlink() else target
            if target in self._seen or place.is_relative_to(target):
                self.skipped[_LINKS] += 1
                continue
            self._seen.add(target)
            self.waiting.append((folder / entry.name, target, level + 1))


def _is_run(folder: Path, level: int) -> bool:
    """Whether a folder holds the manifest of a run; deep down, other programs' are many."""
    manifest = folder / MANIFEST_NAME
    if level == 1 or not manifest.is_file():
        return manifest.is_file()
    with manifest.open("rb") as file:
        return b'"hvdprof_version"' in file.read(_HEAD_BYTES)


def _reason(entry: "os.DirEntry[str]") -> str:
    """Why an entry is not looked at; empty of a folder."""
    try:
        is_folder = entry.is_dir()
    except OSError:
        # A link in a circle.
        return _LINKS
    if not is_folder:
        return _FILES
    return _HIDDEN if entry.name[0] == "." else ""
