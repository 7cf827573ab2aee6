"""The run directories below a folder: list_runs.

The manifest of a run is read once as long as it stays the same file: an open dashboard lists all
runs every second.
"""

import contextlib
import os
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path
from typing import NamedTuple

from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.plain_text import printable
from hvdprof.rundir.layout import MANIFEST_NAME, is_run_below
from hvdprof.rundir.layout import is_run_directory as is_run_directory
from hvdprof.rundir.manifest import NOT_ENDED, Manifest, Status
from hvdprof.rundir.run_lock import Writer, is_written

MOST_CACHED = 5_000

Stamp = tuple[int, ...]

MOST_LEVELS = 4
"""Levels of folders below the given one in which runs are looked for."""

_MOST_FOLDERS = 5_000
_MOST_NAMES = 200_000
"""A home directory or a file system is not searched whole."""

FILES = "files that are no run"
_HIDDEN = "hidden folders"
_UNREADABLE = "folders that cannot be read"
_LINKS = "links to a folder above them or searched already"
_REST = f"folders beyond the first {_MOST_FOLDERS:,} or {_MOST_NAMES:,} names"


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run directory in a list of runs; ``problem`` is empty where its manifest can be read.

    ``models`` are the reference models or the script, ``sizes`` the numbers of ranks, ascending.
    ``num_ended`` of ``num_passes`` passes have ended, well or not.
    """

    folder: Path
    name: str
    created_at: str
    status: str
    problem: str
    models: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    num_passes: int = 0
    num_ended: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the run is being measured, or about to be."""
        return self.status in NOT_ENDED

    @property
    def is_done(self) -> bool:
        """Whether the run ended and no pass of it failed."""
        return self.status == Status.DONE

    @property
    def has_failed(self) -> bool:
        """Whether the run failed, or cannot be read."""
        return bool(self.problem) or self.status == Status.FAILED


class _Known(NamedTuple):
    stamp: Stamp
    entry: RunEntry
    writer: Writer | None


_known: OrderedDict[Path, _Known] = OrderedDict()
_lock = threading.Lock()


def list_runs(folder: str | Path, *, levels: int = MOST_LEVELS) -> tuple[RunEntry, ...]:
    """The run directories below a folder, newest first; ``problem`` says why a run is unreadable.

    >>> sorted(entry.folder.name for entry in list_runs("runs"))
    ['example', 'sweep']

    Args:
        folder: The folder of runs.
        levels: Levels of folders below it that are searched; 1 for the runs in it alone.

    Raises:
        UnreadableInputError: The folder does not exist or cannot be listed.
    """
    return newest_first(runs_below(Path(folder), levels).folders)


def newest_first(folders: Sequence[Path], most: int | None = None) -> tuple[RunEntry, ...]:
    """Run directories, newest first; ``most`` limits them to those whose manifests changed last."""
    if most is not None and len(folders) > most:
        folders = nlargest(most, folders, key=lambda path: manifest_stamp(path) or (0,))
    entries = [run_entry(folder) for folder in folders]
    return tuple(sorted(entries, key=lambda entry: (entry.created_at, entry.name), reverse=True))


def run_entry(folder: Path) -> RunEntry:
    """A run directory as in a list of runs, from its manifest alone; never raises."""
    stamp = manifest_stamp(folder)
    with _lock:
        known = _known.get(folder)
    if known is not None and known.stamp == stamp and _still_stands(known):
        return known.entry
    entry, writer = _read(folder)
    with _lock:
        _known.pop(folder, None)
        if stamp is not None:
            _known[folder] = _Known(stamp, entry, writer)
        while len(_known) > MOST_CACHED:
            _known.popitem(last=False)
    return entry


def manifest_stamp(folder: Path) -> Stamp | None:
    """What changes with the manifest of a run: its times, size and inode; None without one."""
    try:
        about = (folder / MANIFEST_NAME).stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino


def _still_stands(known: _Known) -> bool:
    """Whether a run that has not said how it ended is still what it was: measured, or not."""
    if known.writer is None:
        return known.entry.status not in NOT_ENDED
    return is_written(known.entry.folder, known.writer) == (known.entry.status in NOT_ENDED)


def _read(folder: Path) -> tuple[RunEntry, Writer | None]:
    try:
        manifest = Manifest.read(folder)
    except HvdprofError as error:
        return RunEntry(folder, printable(folder.name), "", "", error.message), None
    models = [segment.segment.model for record in manifest.passes for segment in record.segments]
    entry = RunEntry(
        folder,
        manifest.name,
        manifest.created_at,
        manifest.status,
        "",
        models=tuple(dict.fromkeys(models)),
        sizes=tuple(sorted({record.size for record in manifest.passes})),
        num_passes=len(manifest.passes),
        num_ended=sum(record.status not in NOT_ENDED for record in manifest.passes),
    )
    return entry, manifest.writer


def last_change_ns(path: Path) -> int:
    """Last change of a file or of what lies in a folder, ns since the epoch.

    Raises:
        UnreadableInputError: It is gone, or cannot be looked at.
    """
    try:
        latest = path.stat().st_mtime_ns
        for entry in path.rglob("*"):
            # A running job renames its files; a link can lead nowhere, or in a circle.
            with contextlib.suppress(OSError):
                latest = max(latest, entry.stat().st_mtime_ns)
        return latest
    except OSError as error:
        raise UnreadableInputError(f"Could not read {path}: {error.strerror}.") from error


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
            f"{folder} is not a folder." if folder.exists() else f"There is no folder {folder}.",
            hint="Give the folder in which the run directories lie.",
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
            if is_run_below(folder, level):
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


def _reason(entry: "os.DirEntry[str]") -> str:
    """Why an entry is not looked at; empty of a folder."""
    try:
        is_folder = entry.is_dir()
    except OSError:
        # A link in a circle.
        return _LINKS
    if not is_folder:
        return FILES
    return _HIDDEN if entry.name[0] == "." else ""
