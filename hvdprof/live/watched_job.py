"""Which recordings to watch: those of a run directory launch after launch, or those of a folder."""

from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.plain_text import printable
from hvdprof.rundir.layout import MANIFEST_NAME, PassPaths, RunPaths
from hvdprof.rundir.manifest import NOT_ENDED, Manifest

_HEAD, _TAIL = "rank-", ".jsonl"
_FOLDERS = "passes/*/recorder"


@dataclass(frozen=True, slots=True)
class Recordings:
    """The recorder files of one launch.

    ``events`` and ``stalls`` are files beside them; ``name`` is the launch as messages call it.
    """

    name: str
    folder: Path
    events: Path
    stalls: Path

    def files(self) -> dict[int, Path]:
        """The recorder files that exist, by rank."""
        found = {
            path.name.removeprefix(_HEAD).removesuffix(_TAIL): path
            for path in self.folder.glob(f"{_HEAD}*{_TAIL}")
        }
        return {int(rank): path for rank, path in found.items() if rank.isdecimal()}


class WatchedJob:
    """What the user asked to watch.

    Args:
        place: A run directory, the folder of a launch in it, or a folder of recorder files
            (``HVDPROF_RECORDER_DIR``); it may not hold any yet.

    Raises:
        UnreadableInputError: The place is no folder, or its manifest cannot be read.
    """

    def __init__(self, place: Path) -> None:
        if not place.is_dir():
            raise UnreadableInputError(
                f"{printable(str(place))} is no folder.",
                hint="Name a run directory, or the folder in HVDPROF_RECORDER_DIR.",
            )
        self._place = place
        self._seen: set[str] = set()
        self._current = ""
        self.is_run = (place / MANIFEST_NAME).is_file()
        if self.is_run:
            Manifest.read(place)

    @property
    def name(self) -> str:
        """The last part of the place."""
        return printable(self._place.resolve().name)

    def latest(self) -> Recordings | None:
        """The recordings that began last; None before the first."""
        if not self.is_run:
            own = PassPaths(self._place)
            if own.recorder_folder.is_dir():
                return _of_pass(own, self.name)
            place = self._place
            return Recordings(self.name, place, place / own.events.name, place / own.stalls.name)
        folders = {path.parent.name: path for path in self._place.glob(_FOLDERS)}
        # Rank 0 may be on a host that does not see this folder.
        recorded = {
            name: path
            for name in folders.keys() - self._seen
            if (path := min(folders[name].glob(f"{_HEAD}*{_TAIL}"), default=None)) is not None
        }
        new = recorded.keys()
        if new:
            # Launches that take turns all continue: the one that began last is followed to its end.
            self._seen |= new
            self._current = max(new, key=lambda name: (_changed_ns(recorded[name]), name))
        if not self._current:
            return None
        paths = RunPaths(self._place).of_pass(self._current)
        return _of_pass(paths, f"{self.name}/{printable(self._current)}")

    def is_over(self) -> bool:
        """Whether nothing will be recorded any more; False where that is not known."""
        return self.is_run and Manifest.read(self._place).status not in NOT_ENDED


def _of_pass(paths: PassPaths, name: str) -> Recordings:
    return Recordings(name, paths.recorder_folder, paths.events, paths.stalls)


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
