"""The runs of one dashboard: named once at start, read when looked at, kept while unchanged."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from hvdprof.api import analyze_run, load_run
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.model.run import RunAnalysis

_MOST_KEPT = 8


def read_and_analyze(folder: Path) -> RunAnalysis:
    """The finished analysis of a run directory."""
    return analyze_run(load_run(folder))


class RunStore:
    """Runs by id. A browser only ever sends an id, so that it can ask for no other folder.

    Args:
        folders: The run directories, in the order in which they are offered.
        read: What makes an analysis of a folder.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        read: Callable[[Path], RunAnalysis] = read_and_analyze,
    ) -> None:
        self._folders = _by_id(folders)
        self._read = read
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], RunAnalysis] = OrderedDict()

    @property
    def ids(self) -> list[str]:
        """The ids in the order of the folders."""
        return list(self._folders)

    def analysis(self, run_id: str) -> RunAnalysis:
        """The analysis of a run, read anew when a file of the run has changed.

        Raises:
            UsageError: There is no run of that id.
            UnreadableInputError: Its folder is gone or holds nothing usable.
        """
        folder = self._folders.get(run_id)
        if folder is None:
            raise UsageError(f"There is no run {run_id!r} here.", hint="Choose one of the list.")
        # One request reads at a time: two of the same run would do the same work twice.
        with self._lock:
            key = (run_id, _last_change_ns(folder))
            if key not in self._kept:
                self._keep(key, self._read(folder))
            self._kept.move_to_end(key)
            return self._kept[key]

    def _keep(self, key: tuple[str, int], analysis: RunAnalysis) -> None:
        for old in [old for old in self._kept if old[0] == key[0]]:
            del self._kept[old]
        self._kept[key] = analysis
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)


def _by_id(folders: Sequence[Path]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        run_id, number = folder.name, 1
        while run_id in named:
            number += 1
            run_id = f"{folder.name} ({number})"
        named[run_id] = folder
    return named


def _last_change_ns(folder: Path) -> int:
    try:
        return max(path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")])
    except OSError as error:
        raise UnreadableInputError(f"Could not read {folder}: {error.strerror}.") from error
