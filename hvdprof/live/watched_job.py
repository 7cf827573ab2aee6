"""The files of a watch: the recordings that it follows, and the events that it appends.

A watcher reads the recorder files from their begin, so that it comes to the same events again; what
the file holds already is neither written nor reported again.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.live.job_state import Change
from hvdprof.live.rank_feed import FileTail
from hvdprof.live.snapshot import Event
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import DAMAGE, JsonObject, parse_json
from hvdprof.rundir.layout import MANIFEST_NAME, PassPaths, RunPaths
from hvdprof.rundir.manifest import NOT_ENDED, Manifest
from hvdprof.rundir.recording.stall_format import EventKind, EventState
from hvdprof.rundir.written_file import open_run_file

_HEAD, _TAIL = "rank-", ".jsonl"
_FOLDERS = "passes/*/recorder"

_Key = tuple[EventKind, tuple[int, ...]]
_Seen = tuple[EventKind, EventState, tuple[int, ...], str, int]

_NS = 1e9
_NEW = -1
_TIMES, _TEXTS = ("time", "since", "cost", "step"), ("segment", "host", "phase", "place", "text")
"""Of an event; the file has whole nanoseconds."""


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


class EventFile:
    """Numbers events, and keeps them in a file.

    Args:
        path: The file; read where it exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: dict[_Key, Event] = {}
        self.problem = ""
        """Why the file takes no more events; empty while it does."""
        self.counts: dict[EventKind, int] = {}
        self.keeps = True
        """Whether new events are written."""
        self._next = 0
        self._tail = FileTail(path)
        self._before = self._read_on()
        self._beside: dict[_Seen, Event] = {}

    @property
    def running(self) -> list[Event]:
        """The events that have begun and are not over."""
        return list(self._open.values())

    def take(self, change: Change, time_s: float, place: str = "") -> Event | None:
        """The event of a change; None where an earlier watcher reported it, or it begins twice."""
        key = change.kind, change.ranks
        begun = self._open.get(key)
        is_once = change.state == EventState.ONCE
        if not is_once and (change.state == EventState.BEGUN) == (begun is not None):
            return None
        seen_s = time_s if math.isnan(change.time_s) else min(change.time_s, time_s)
        number = begun.number if begun else _NEW
        event = Event(number=number, place=place, **asdict(change) | {"time_s": seen_s})
        event, is_new = self._written_down(event)
        if change.state == EventState.BEGUN:
            self._open[key] = event
        else:
            self._open.pop(key, None)
        if change.state != EventState.OVER:
            self.counts[change.kind] = self.counts.get(change.kind, 0) + 1
        return event if is_new else None

    def running_of(self, change: Change) -> Event | None:
        """The event that a change has begun, also one that an earlier watcher has reported."""
        return self._open.get((change.kind, change.ranks))

    def follow(self, event: Event) -> Event | None:
        """What followed an event; None where an earlier watcher has reported it."""
        event, is_new = self._written_down(event)
        return event if is_new else None

    def _written_down(self, event: Event) -> tuple[Event, bool]:
        """The event as it is written down, and whether it is to be reported."""
        known = self._before.pop(_seen(event), None)
        self._beside |= self._read_on()
        # Another watcher beside this one may have written it down: it is reported here, too.
        written = self._beside.pop(_seen(event), None)
        number = self._next if event.number == _NEW else event.number
        event = known or written or replace(event, number=number)
        self._next = max(self._next, event.number + 1)
        if known is None and written is None and self.keeps:
            self._write(event)
        return event, known is None

    def _read_on(self) -> dict[_Seen, Event]:
        """What was added to the file; a line that a full disk has cut is reported once more."""
        found: dict[_Seen, Event] = {}
        while lines := self._tail.lines():
            for text in lines:
                try:
                    event = _event(parse_json(text))
                except DAMAGE:
                    # ``analyze`` reports it.
                    continue
                found[_seen(event)] = event
                self._next = max(self._next, event.number + 1)
        return found

    def _write(self, event: Event) -> None:
        try:
            with open_run_file(self._path) as file:
                # A line that a full disk has cut must not spoil this one.
                file.write("\n" * self._tail.is_torn + json.dumps(_line(event)) + "\n")
        except OSError as error:
            # The event is reported all the same; a full disk must not end the watcher.
            self.problem = f"{self._path.name} takes no more events: {error.strerror or error}"


def _seen(one: Change | Event) -> _Seen:
    return one.kind, one.state, one.ranks, one.segment, one.step


def _line(event: Event) -> JsonObject:
    line = {
        "kind": "event",
        "number": event.number,
        "event": event.kind,
        "state": event.state,
        "step": event.step,
        "ranks": list(event.ranks),
        **{f"{name}_ns": round(getattr(event, f"{name}_s") * _NS) for name in _TIMES},
        **{name: getattr(event, name) for name in _TEXTS},
    }
    return line | ({"share": event.share, "files": list(event.files)} if event.files else {})


def _event(line: JsonObject) -> Event:
    times: JsonObject = {f"{name}_s": line[f"{name}_ns"] / _NS for name in _TIMES}
    texts = {name: printable(str(line[name])) for name in _TEXTS}
    return Event(
        number=int(line["number"]),
        kind=EventKind(line["event"]),
        state=EventState(line["state"]),
        step=int(line["step"]),
        ranks=tuple(int(rank) for rank in line["ranks"]),
        share=float(line.get("share", 0.0)),
        files=tuple(printable(str(name)) for name in line.get("files", ())),
        **times | texts,
    )
