"""The run directories below a folder: list_runs.

The manifest of a run is read once as long as it stays the same file: an open dashboard lists all
runs every second.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hvdprof.api.run_folders import MOST_LEVELS, runs_below
from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.plain_text import printable
from hvdprof.rundir.layout import MANIFEST_NAME
from hvdprof.rundir.manifest import NOT_ENDED, Manifest
from hvdprof.rundir.run_lock import Writer, is_written

if TYPE_CHECKING:
    from hvdprof.model.run import RunEntry as RunEntry

MOST_CACHED = 5_000

Stamp = tuple[int, ...]


class _Known(NamedTuple):
    stamp: Stamp
    entry: "RunEntry"
    writer: Writer | None


_known: OrderedDict[Path, _Known] = OrderedDict()
_lock = threading.Lock()


def list_runs(folder: str | Path, *, levels: int = MOST_LEVELS) -> "tuple[RunEntry, ...]":
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


def newest_first(folders: Sequence[Path], most: int | None = None) -> "tuple[RunEntry, ...]":
    """Run directories as in a list of runs, newest first.

    Args:
        folders: The run directories.
        most: The number of runs to read at most, those whose manifests changed last.
    """
    if most is not None and len(folders) > most:
        folders = nlargest(most, folders, key=lambda path: manifest_stamp(path) or (0,))
    entries = [run_entry(folder) for folder in folders]
    return tuple(sorted(entries, key=lambda entry: (entry.created_at, entry.name), reverse=True))


def run_entry(folder: Path) -> "RunEntry":
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


def _read(folder: Path) -> "tuple[RunEntry, Writer | None]":
    from hvdprof.model.run import RunEntry

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
