"""Stacks that debuggers print (faulthandler, py-spy, gdb), and dumps of torch.distributed.debug.

A dump of the debug server of PyTorch 2.10 and later has a section for each rank, ``=== Rank 0:
http://host:port/handler/dump_traceback? ===``. Elsewhere the prefix of a line or the name of the
file gives the rank. Of several dumps of a process the last counts.

Tested in ``tests/ingest/logs/test_process_stacks.py``.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.sources.listing import rank_in_name
from hvdprof.ingest.text.line_filter import EVERY_LINE, anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.small_json import mapping_of, read_small
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.printed_tables import RANK_STACKS
from hvdprof.rundir.failures.stack_text import (
    PY_SPY,
    StackReader,
    ThreadStack,
    main_thread,
    own_frame,
    wait_of,
)
from hvdprof.rundir.json_codec import parse_json
from hvdprof.rundir.recording.stall_format import frame_parts
from hvdprof.rundir.regular_file import shown_name
from hvdprof.units import counted

SERVER, NO_STACK, COUNTERS = "torch.distributed.debug", "no stack", "wait counters"
_MOST_FRAMES = 8
_MOST_PROCESSES = 100_000
_SECTION = re.compile(
    r"=== Rank (?P<rank>\d{1,7}): https?://(?P<host>[^/ ]+):\d+/handler/"
    r"(?P<what>dump_traceback|pyspy_dump|wait_counter_values)\b"
)
_PROCESS = re.compile(r"(?:Process (\d{1,18}): |Attaching to process (\d{1,18})$)")
_DETACHED = re.compile(r"\[Inferior \d+ \(process (\d{1,18})\) detached\]")
_AGAIN = re.compile(r"Timeout \(\d+:\d\d:\d\d|Fatal Python error: ")
_FAILED = re.compile(r"Error: (\d{3})$")
_COUNTER = re.compile(r'\s+"(?:pytorch\.wait_counter\.)?(?P<name>[^"]{1,200})": \{$')
_ACTIVE = re.compile(r'\s+"active_count": (\d{1,18}),?$')
_OPENS = anywhere(
    _SECTION.pattern, r"\(most recent call first\):",
    r"Thread (?:0x)?[0-9A-Fa-f]+ \((?:idle|active)", r"Thread \d+ \((?:Thread 0x|LWP|process)",
    r"#0 +(?:0x|\w)", r"\", line \d+ in ",
    r"Process \d{1,18}: ", r"Attaching to process \d", _AGAIN.pattern,
)  # fmt: skip
_Key = tuple[int | None, str]


@dataclass(slots=True)
class _Process:
    """A process in the making; ``section`` is what the debug server was asked for."""

    line: int
    rank: int | None
    host: str
    pid: int | None = None
    section: str = ""
    state: str = ""
    crashed: bool = False
    counters: list[str] = field(default_factory=list)
    stacks: StackReader = field(default_factory=StackReader)

    @property
    def main(self) -> ThreadStack | None:
        """Its main thread, or the one that crashed; None without a frame."""
        threads = self.stacks.threads
        current = [thread for thread in threads if self.crashed and thread.is_current]
        return main_thread(current or threads, str(self.pid or ""))


class ProcessStacks(PartReader):
    """Processes with their stacks as rows of RANK_STACKS."""

    TABLES = (RANK_STACKS,)
    KIND = "stacks of processes"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        # By what log prefixes say: the lines of several ranks may be mixed.
        self._open: dict[_Key, _Process] = {}
        self._found: dict[tuple[object, ...], _Process] = {}
        self._num_joined = self._num_orphans = 0

    @property
    def wanted(self) -> str:
        """Lines that begin a stack, and all while one is open."""
        return EVERY_LINE if self._open else _OPENS

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        key, text = (line.rank, line.host), line.text
        process = self._open.get(key)
        if found := _SECTION.match(text):
            self._open.pop(key, None)
            self._close(process)
            self._open[key] = _Process(
                line.number, int(found["rank"]), found["host"], section=found["what"]
            )
        elif found := _PROCESS.match(text):
            if process is None or process.stacks.threads or process.pid:
                process = self._next(key, line)
            process.pid = int(found[1] or found[2])
        elif _AGAIN.match(text):
            self._next(key, line).crashed = text.startswith("Fatal")
        elif process and (found := _DETACHED.match(text)):
            process.pid = int(found[1])
            self._close(self._open.pop(key))
        elif process and process.section and (found := _FAILED.match(text)):
            process.state = NO_STACK
        elif process and process.section == "wait_counter_values":
            _take_counter(process, text)
        else:
            self._take_stack(key, line)

    def notes(self) -> list[Note]:
        """Frames that were put together, and those without a thread."""
        said = (
            (NoteCode.DAMAGED, self._num_joined, "put together from two lines"),
            (NoteCode.OMITTED, self._num_orphans, "omitted: other output is between"),
        )
        return [
            Note(code, f"{counted(number, 'frame')} of stacks {text}", number=number)
            for code, number, text in said
            if number
        ]

    def _take_stack(self, key: _Key, line: PrintedLine) -> None:
        process = self._open.get(key)
        if process and process.stacks.is_next(line.text):
            process = self._next(key, line)
        own = process or _Process(line.number, *key)
        is_stack = own.stacks.take(line.text)
        if is_stack:
            self._open[key] = own
        elif process is None:
            self._num_orphans += own.stacks.num_orphans
        elif process.stacks.threads and line.text and not process.section:
            self._close(self._open.pop(key))

    def _next(self, key: _Key, line: PrintedLine) -> _Process:
        """The next process of this prefix, or of the section of the debug server."""
        before = self._open.pop(key, None) or _Process(line.number, *key)
        self._close(before)
        begun = _Process(line.number, before.rank, before.host, section=before.section)
        self._open[key] = begun
        return begun

    def _close(self, process: _Process | None) -> None:
        if process is None or len(self._found) >= _MOST_PROCESSES:
            return
        self._num_joined += process.stacks.num_joined
        self._num_orphans += process.stacks.num_orphans
        main = process.main
        if main or process.state:
            identity = process.rank, process.host, process.pid, main.thread_id if main else ""
            self._found[identity] = process

    def finish(self) -> None:
        """Add the row of each process."""
        while self._open:
            self._close(self._open.popitem()[1])
        if len(self._found) == 1:
            (one,) = self._found.values()
            one.rank = rank_in_name(Path(self._file)) if one.rank is None else one.rank
        for process in self._found.values():
            self.add(process.line, **_row_of(process))
        self._found = {}


def read_stack_json(path: Path) -> list[tuple[str, pd.DataFrame]]:
    """The processes of a dump of ``py-spy dump --json``, as RANK_STACKS by its name.

    Raises:
        UnreadableInputError: It is torn, too large, or of another form.
        OSError: It cannot be read.
    """
    reader = ProcessStacks(shown_name(path))
    processes: dict[int, _Process] = {}
    try:
        threads = parse_json(read_small(path))
        for thread in map(mapping_of, threads if isinstance(threads, list) else [threads]):
            pid = int(str(thread["pid"]))
            process = processes.setdefault(pid, _Process(1, rank_in_name(path), "", pid))
            name, frames = str(thread.get("thread_name") or ""), thread["frames"]
            stack = ThreadStack(PY_SPY, name, str(thread.get("os_thread_id")), name == "MainThread")
            for frame in map(mapping_of, frames if isinstance(frames, list) else []):
                line = frame.get("line") or ""
                stack.frames.append(f"{frame['filename']}:{line} {frame['name']}")
            process.stacks.threads.append(stack)
    except (ValueError, KeyError) as error:
        raise UnreadableInputError(
            f"{shown_name(path)} is a damaged dump of py-spy; it is not read.",
            hint="Dump again: py-spy dump --json --pid PID.",
        ) from error
    for process in processes.values():
        if process.main:
            reader.add(process.line, **_row_of(process))
    return list(reader.tables().items())


def _take_counter(process: _Process, text: str) -> None:
    """A line of the wait counters of a rank: an active counter is a wait."""
    process.state = COUNTERS
    if found := _COUNTER.match(text):
        process.counters.append(found["name"])
    elif (found := _ACTIVE.match(text)) and process.counters and not int(found[1]):
        process.counters.pop()


def _row_of(process: _Process) -> dict[str, object]:
    thread = process.main or ThreadStack(SERVER)
    state, operation = wait_of(thread.frames)
    if process.state == COUNTERS:
        operation = ", ".join(process.counters) or "no wait that PyTorch counts"
    file, number, function = frame_parts(own_frame(thread.frames))
    frames = (frame.rpartition("-packages/")[2] for frame in thread.frames[:_MOST_FRAMES])
    return {
        "rank": process.rank,
        "host": process.host,
        "pid": process.pid,
        "tool": thread.tool,
        "thread": thread.name,
        "num_threads": len(process.stacks.threads),
        "state": process.state or str(state),
        "operation": operation,
        "place": f"{file}:{number}" if file else "",
        "function": function,
        "stack": "\n".join(frames),
    }
