"""The runs of one dashboard: named once at start, read when looked at, kept while unchanged."""

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd

from hvdprof.api import all_tables, analyze_files, analyze_run, list_runs, load_run
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.model.run import Run, RunAnalysis, declared_table
from hvdprof.model.standalone_files import FoundAnalysis

_MOST_KEPT = 8
_MOST_MADE = 4

Made = TypeVar("Made")
Looked = RunAnalysis | FoundAnalysis


def read_and_analyze(path: Path) -> Looked:
    """The finished analysis of a run directory, or of a lone file."""
    run = load_run(path)
    return analyze_run(run) if run.recorded else analyze_files(run)


@dataclass(slots=True)
class _Kept:
    """A run in memory, its tables, and what pages made of it."""

    changed_ns: int
    looked: Looked
    made: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class RunStore:
    """Runs by id. A browser only ever sends an id, so that it can ask for nothing else.

    Args:
        paths: Run directories and lone files, in the order in which they are offered.
        watched: Folders whose runs are offered too, newest first; new ones as they appear.
        read: What makes an analysis of a run directory or a file.
        check_every_s: How long a look at the disk is taken for true. A zoom asks many times a
            second, and a run of hundreds of ranks has thousands of files.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        watched: Sequence[Path] = (),
        read: Callable[[Path], Looked] = read_and_analyze,
        check_every_s: float = 1.0,
    ) -> None:
        self._paths = list(dict.fromkeys(path.resolve() for path in paths))
        self._watched = list(dict.fromkeys(folder.resolve() for folder in watched))
        self._read = read
        self._check_every_s = check_every_s
        self._lock = threading.Lock()
        self._names: dict[Path, str] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._reading: dict[str, threading.Lock] = {}
        self._seen: dict[str, tuple[float, Any]] = {}

    @property
    def ids(self) -> list[str]:
        """The ids of all runs that are there now; an id never comes to mean another run."""
        return self._lately("ids", self._list)

    def look(self, run_id: str) -> Looked:
        """The analysis of a run or a lone file, read anew when one of its files has changed.

        Raises:
            UsageError: There is no run of that id.
            UnreadableInputError: Its folder is gone or holds nothing usable.
        """
        return self._fresh(run_id).looked

    def analysis(self, run_id: str) -> RunAnalysis:
        """The analysis of a run directory.

        Raises:
            UsageError: There is no run of that id.
            UnreadableInputError: Its folder is gone, holds nothing usable, or it is a lone file.
        """
        looked = self.look(run_id)
        if isinstance(looked, RunAnalysis):
            return looked
        raise UnreadableInputError(
            f"{run_id} is a file that stands alone: no step of every rank was recorded with it.",
            hint="hvdprof bench --preset quick",
        )

    def run(self, run_id: str) -> Run:
        """What was recorded; raises as ``look``."""
        return self.look(run_id).run

    def table(self, run_id: str, name: str) -> pd.DataFrame:
        """One declared table of a run or of what was computed of it, without rows if it has none.

        Raises:
            UsageError: There is no run of that id, or no table of that name.
            UnreadableInputError: Its folder is gone or holds nothing usable.
        """
        looked = self.look(run_id)
        own = looked.run.table(name)
        if len(own):
            return own
        if isinstance(looked, RunAnalysis):
            return looked.table(name)
        frame = self.made(run_id, "tables", lambda: all_tables(_in_memory(looked.run))).get(name)
        return declared_table(name).empty() if frame is None else frame

    def made(self, run_id: str, key: Hashable, make: Callable[[], Made]) -> Made:
        """What a page computed of a run, kept beside it: as long as the run, and only the latest.

        Args:
            run_id: Id of the run.
            key: What it is, among all that is made of this run.
            make: Computes it where it is not there.
        """
        kept = self._fresh(run_id)
        with kept.lock:
            if key not in kept.made:
                kept.made[key] = make()
            kept.made.move_to_end(key)
            while len(kept.made) > _MOST_MADE:
                kept.made.popitem(last=False)
            return cast(Made, kept.made[key])

    def changed_ns(self, run_id: str) -> int:
        """When a file of the run was last changed, ns since the epoch; raises as ``look``."""
        path = self._path(run_id)
        return self._lately(f"changed {run_id}", lambda: _last_change_ns(path))

    def _fresh(self, run_id: str) -> _Kept:
        path = self._path(run_id)
        with self._lock:
            reading = self._reading.setdefault(run_id, threading.Lock())
        # Two requests for the same run would do the same work twice.
        with reading:
            changed_ns = self.changed_ns(run_id)
            with self._lock:
                kept = self._kept.get(run_id)
            if kept is None or kept.changed_ns != changed_ns:
                kept = _Kept(changed_ns, self._read(path))
            with self._lock:
                self._kept[run_id] = kept
                self._kept.move_to_end(run_id)
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            return kept

    def _path(self, run_id: str) -> Path:
        if run_id in self.ids:
            for path, name in list(self._names.items()):
                if name == run_id:
                    return path
        raise UsageError(f"There is no run {run_id!r} here.", hint="Choose one of the list.")

    def _list(self) -> list[str]:
        found = list(self._paths)
        for folder in self._watched:
            if folder.is_dir():
                found += [entry.folder.resolve() for entry in list_runs(folder)]
        with self._lock:
            return [self._name(path) for path in dict.fromkeys(found)]

    def _name(self, path: Path) -> str:
        if path not in self._names:
            taken = set(self._names.values())
            name, number = path.name, 1
            while name in taken:
                number += 1
                name = f"{path.name} ({number})"
            self._names[path] = name
        return self._names[path]

    def _lately(self, what: str, look: Callable[[], Made]) -> Made:
        now = time.monotonic()
        seen_at, seen = self._seen.get(what, (-float("inf"), None))
        if now - seen_at >= self._check_every_s:
            seen = look()
            self._seen[what] = (now, seen)
        return cast(Made, seen)


def _in_memory(run: Run) -> Run:
    """The same run without cached tables: the analysis of those leaves the largest tables out."""
    return replace(run, cached={})


def _last_change_ns(path: Path) -> int:
    try:
        latest = path.stat().st_mtime_ns
        for one in path.rglob("*"):
            # A run that goes on renames its files; a link may lead nowhere.
            with contextlib.suppress(FileNotFoundError):
                latest = max(latest, one.stat().st_mtime_ns)
        return latest
    except OSError as error:
        raise UnreadableInputError(f"Could not read {path}: {error.strerror}.") from error
