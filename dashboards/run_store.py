"""The runs of one dashboard: read at first use, cached while unchanged."""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

import pandas as pd

from hvdprof.api import analyze_files, analyze_run, is_run_directory, load_run, run_entries
from hvdprof.api.run_entries import (
    RunEntry,
    last_change_ns,
    manifest_stamp,
    newest_first,
    run_entry,
)
from hvdprof.api.tables import release_tables, tables_of_files
from hvdprof.dashboards.glance import Glance, glance
from hvdprof.dashboards.trash import move_beside
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.plain_text import printable

MOST_LISTED = 1_000
"""Runs of a watched folder that are offered, the latest ones."""

OLDER = "older runs"
"""Of a watched folder: those beyond the latest ``MOST_LISTED``."""

_LONG_S = 0.1
_REST = 4
"""How long a run that is measured is not read again, as a multiple of what its reading took."""
_MOST_CACHED = _MOST_MADE = 8

Made = TypeVar("Made")
Finished = RunAnalysis | FilesAnalysis


def read_and_analyze(path: Path, price: float | None = None) -> Finished:
    """The finished analysis of a run directory, at a price per GPU and hour, or of a file."""
    if is_run_directory(path):
        return analyze_run(path, price=price)
    run = load_run(_without_runs(path))
    return analyze_run(run, price=price) if run.recorded else analyze_files(run)


def _without_runs(path: Path) -> Path | list[Path]:
    """The files of a folder beside which runs have appeared, which are entries of their own."""
    runs = () if path.is_file() or is_run_directory(path) else run_entries.runs_below(path).folders
    others = (one for one in path.glob("[!.]*") if not any(run.is_relative_to(one) for run in runs))
    return sorted(others) if runs else path


@dataclass(slots=True)
class _CachedRun:
    """A run in memory, its tables, and the results that pages computed from it."""

    state: tuple[int, str, int]
    looked: Finished
    # Until when it counts although files of a run that is measured have changed.
    until_s: float = 0.0
    made: OrderedDict[Hashable, object] = field(default_factory=OrderedDict)
    # What is made of a run may need what else is made of it.
    lock: threading.RLock = field(default_factory=threading.RLock)


class RunStore:
    """Runs by id. A browser sends ids alone, so that it can request nothing else.

    Args:
        paths: Run directories and standalone files, in the order in which they are offered.
        watched: Folders whose runs are offered too, newest first, including new ones.
        read: Makes the analysis of a run directory or a file.
        check_every_s: Lifetime of the result of a look at the disk. A zoom sends many requests
            per second, and a run of hundreds of ranks has thousands of files.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        watched: Sequence[Path] = (),
        read: Callable[[Path], Finished] = read_and_analyze,
        check_every_s: float = 1.0,
    ) -> None:
        self._paths = list(dict.fromkeys(path.resolve() for path in paths))
        self._watched = list(dict.fromkeys(folder.resolve() for folder in watched))
        self._read = read
        self._check_every_s = check_every_s
        self._lock = threading.Lock()
        self._left_out: Counter[str] = Counter()
        self._names: dict[Path, str] = {}
        self._path_of: dict[str, Path] = {}
        self._cached: OrderedDict[str, _CachedRun] = OrderedDict()
        self._reading: dict[str, threading.Lock] = {}
        self._seen: dict[str, tuple[float, object]] = {}
        self._glances: dict[str, tuple[tuple[int | str, ...], Glance | None]] = {}

    @property
    def ids(self) -> list[str]:
        """The ids of all available runs; an id always stands for the same run."""
        return self._lately("ids", self._list)

    @property
    def left_out(self) -> Mapping[str, int]:
        """What of watched folders is not offered, by reason: runs, folders, other files."""
        self._lately("ids", self._list)
        return self._left_out

    def finished(self, run_id: str) -> Finished:
        """The analysis of a run or a standalone file, read again when one of its files has changed.

        Raises:
            UsageError: There is no run of that id.
            UnreadableInputError: Its folder is gone or holds nothing usable.
        """
        return self._fresh(run_id).looked

    def analysis(self, run_id: str) -> RunAnalysis:
        """The analysis of a run directory.

        Raises:
            UsageError: There is no run of that id.
            UnreadableInputError: Its folder is gone or unusable, or it is a standalone file.
        """
        looked = self.finished(run_id)
        if isinstance(looked, RunAnalysis):
            return looked
        raise UnreadableInputError(
            f"{run_id} is a standalone file: it has no recorder files of the ranks.",
            hint="hvdprof bench --preset quick",
        )

    def run(self, run_id: str) -> Run:
        """The run itself; raises as ``look``."""
        return self.finished(run_id).run

    def table(self, run_id: str, name: str) -> pd.DataFrame:
        """One declared table of a run or of its analysis, without rows if it has none.

        Raises:
            UsageError: There is no run of that id, or no table of that name.
            UnreadableInputError: Its folder is gone or holds nothing usable.
        """
        looked = self.finished(run_id)
        own = looked.run.table(name)
        if len(own):
            return own
        if isinstance(looked, RunAnalysis):
            return looked.table(name)
        tables = self.made(run_id, "tables", lambda: tables_of_files(looked))
        # Those of a large timeline stay in the cache until one is asked for.
        return self.made(run_id, ("table", name), lambda: tables.table(name))

    def made(self, run_id: str, key: Hashable, make: Callable[[], Made]) -> Made:
        """A result of that key that a page makes of a run; the latest eight are cached with it."""
        entry = self._fresh(run_id)
        with entry.lock:
            if key not in entry.made:
                entry.made[key] = make()
                # What was made of whole tables no longer needs them.
                release_tables()
            entry.made.move_to_end(key)
            while len(entry.made) > _MOST_MADE:
                entry.made.popitem(last=False)
            return cast(Made, entry.made[key])

    def entry(self, run_id: str) -> RunEntry | None:
        """What the manifest of a run directory says; None for a standalone file.

        Raises:
            UsageError: There is no run of that id.
        """
        path = self.path(run_id)
        is_run = is_run_directory(path)
        return self._lately(f"entry {run_id}", lambda: run_entry(path)) if is_run else None

    def is_read(self, run_id: str) -> bool:
        """Whether the analysis of a run is in memory, as it was last read."""
        with self._lock:
            return run_id in self._cached

    def known_glance(self, run_id: str) -> Glance | None:
        """What is known of a run whose manifest is as it was analyzed; None of any other."""
        return self._glances[run_id][1] if self.was_analyzed(run_id) else None

    def was_analyzed(self, run_id: str) -> bool:
        """Whether a run was analyzed, or could not be, with its manifest as it is."""
        return self._stamp(run_id) == self._glances.get(run_id, (None,))[0]

    def _stamp(self, run_id: str) -> tuple[int | str, ...]:
        """What changes with a file, with the manifest of a run, or where its writer was killed."""
        stamp, listed = manifest_stamp(self.path(run_id)), self.entry(run_id)
        return (*(stamp or ()), listed.status) if listed else (self.changed_ns(run_id),)

    def move_to_trash(self, run_id: str) -> Path:
        """Move a run directory into the folder ``.trash`` beside it, and return its new place.

        Raises:
            UsageError: There is no run of that id, it is being measured, or it is no run directory;
                it is a link to another folder, or belongs to another user.
            UnreadableInputError: It cannot be moved.
        """
        path = self.path(run_id)
        if not is_run_directory(path):
            raise UsageError(f"{run_id} is a standalone file, which the dashboard does not move.")
        # Not as it was seen lately.
        if run_entry(path).is_open:
            raise UsageError(f"{run_id} is being measured.", hint="End the measurement first.")
        if path not in self._paths and not any(map(path.is_relative_to, self._watched)):
            raise UsageError(f"{run_id} is a link to {path}.", hint="Delete it by hand.")
        target = move_beside(path)
        with self._lock:
            self._paths = [other for other in self._paths if other != path]
            self._cached.pop(run_id, None)
            self._seen.clear()
        return target

    def changed_ns(self, run_id: str) -> int:
        """Last change of a file of the run, ns since the epoch; raises as ``look``."""
        path = self.path(run_id)
        return self._lately(f"changed {run_id}", lambda: last_change_ns(path))

    def _fresh(self, run_id: str) -> _CachedRun:
        path = self.path(run_id)
        with self._lock:
            reading = self._reading.setdefault(run_id, threading.Lock())
        # Without the lock, two requests for the same run would read it twice.
        with reading:
            listed, stamp = self.entry(run_id), self._stamp(run_id)
            # No file says that the writer of a run was killed.
            progress = ("", 0) if listed is None else (listed.status, listed.num_ended)
            state = self.changed_ns(run_id), *progress
            with self._lock:
                entry = self._cached.get(run_id)
            began_s = time.monotonic()
            is_new = entry is None or entry.state[1:] != progress or began_s >= entry.until_s
            if entry is None or (is_new and entry.state != state):
                # A verdict that stands in the list stays there while it is made again.
                self._glances[run_id] = (stamp, self.known_glance(run_id))
                entry = _CachedRun(state, self._read(path))
                if listed is not None and listed.is_open:
                    # Its files change all the time: without a rest it would only be read.
                    now_s = time.monotonic()
                    entry.until_s = now_s + _REST * (now_s - began_s)
                self._glances[run_id] = (stamp, glance(entry.looked))
            with self._lock:
                self._cached[run_id] = entry
                self._cached.move_to_end(run_id)
                while len(self._cached) > _MOST_CACHED:
                    self._cached.popitem(last=False)
            return entry

    def path(self, run_id: str) -> Path:
        """Where a run lies.

        Raises:
            UsageError: There is no run of that id.
        """
        if run_id in self._lately("known ids", lambda: frozenset(self.ids)):
            return self._path_of[run_id]
        raise UsageError(f"There is no run {run_id!r} here.", hint="Choose a run from the list.")

    def _list(self) -> list[str]:
        found, left_out = list(self._paths), Counter[str]()
        for folder in self._watched:
            if folder.is_dir():
                folders, skipped = run_entries.runs_below(folder)
                listed = newest_first(folders, MOST_LISTED)
                found += [entry.folder.resolve() for entry in listed]
                if older := len(folders) - len(listed):
                    left_out[OLDER] += older
                left_out.update(skipped)
        self._left_out = left_out
        with self._lock:
            return [self._name(path) for path in dict.fromkeys(found)]

    def _name(self, path: Path) -> str:
        if path not in self._names:
            # What is not UTF-8 cannot be part of an address.
            plain, number = printable(path.name), 1
            for folder in self._watched:
                if plain in self._path_of and path.is_relative_to(folder):
                    plain = printable(str(path.relative_to(folder)))
            name = plain
            while name in self._path_of:
                number += 1
                name = f"{plain} ({number})"
            self._names[path], self._path_of[name] = name, path
        return self._names[path]

    def _lately(self, what: str, look: Callable[[], Made]) -> Made:
        now = time.monotonic()
        until, seen = self._seen.get(what, (-float("inf"), None))
        if now >= until:
            seen = look()
            took_s = time.monotonic() - now
            # The search of a large folder shall take a tenth of the time at most.
            wait_s = 10 * took_s if took_s > _LONG_S else 0.0
            self._seen[what] = (now + max(self._check_every_s, wait_s), seen)
        return cast(Made, seen)
