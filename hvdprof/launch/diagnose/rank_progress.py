"""The progress of each rank of a pass, read from its recorder file; and whether its process runs.

Only the short lines are parsed; of the step lines, by far the most, just the last one of a rank.

A launcher ends when the output of its ranks is closed, not when they exit: a daemon that a script
leaves behind keeps it open forever. And a rank that a signal stops for half a minute makes its
peers fail under Gloo, though it has done nothing wrong itself.
"""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.collect.auto.startup.hvdprof_import_hook import NOTICE
from hvdprof.collect.host_facts import boot_id, pid_namespace
from hvdprof.launch.diagnose.stall import StalledRank
from hvdprof.launch.processes.marked_processes import is_stopped, state_letter
from hvdprof.rundir.failures.log_prefixes import split_rank, without_colours
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.recorder_codec import from_bytes, is_step
from hvdprof.rundir.recording.recorder_format import HeaderLine

_MOST_PRINTED = 262_144
"""Bytes of a file that are shown at once; the rest follows with the next look."""

MAX_NAMED_RANKS = 8

EXITED_GRACE_S = 10.0
"""A launcher has that long to notice that all its ranks have exited."""


@dataclass(slots=True)
class RankState:
    """The contents of one rank's recorder file so far.

    ``segment`` is the one that runs, None between segments; ``num_steps`` counts its steps.
    ``ended`` holds the segments that ran to their end, ``finished`` says the file was closed;
    ``timelines`` are the files of Horovod's timelines that it began, in the pass, by segment;
    ``timeline_problems`` are those of ``problems`` for which it could not begin one.
    """

    rank: int
    header: HeaderLine | None = None
    segment: str | None = None
    num_steps: int = 0
    ended: set[str] = field(default_factory=set)
    finished: bool = False
    problems: list[str] = field(default_factory=list)
    timeline_problems: list[str] = field(default_factory=list)
    timelines: dict[str, str] = field(default_factory=dict)
    size_bytes: int = 0


class PassProgress:
    """The states of all ranks of a pass; ``update`` reads what was added since.

    ``notice`` says that a rank trains what cannot be recorded, and what can; empty otherwise.
    """

    def __init__(self, paths: PassPaths) -> None:
        self._paths = paths
        self._carried: dict[int, bytes] = {}
        self._printed: dict[Path, int] = {}
        self.ranks: dict[int, RankState] = {}
        self.notice = ""

    def update(self) -> int:
        """Continue to read every recorder file; the bytes read so far, which grow with progress."""
        for path in self._paths.recorder_files():
            rank = int(path.stem.removeprefix("rank-"))
            self._continue(path, self.ranks.setdefault(rank, RankState(rank)))
        if not self.ranks and not self.notice and self._paths.unrecorded.exists():
            self.notice = NOTICE
        return sum(state.size_bytes for state in self.ranks.values())

    def printed(self) -> list[str]:
        """The whole lines that rank 0 has printed since the last call, without the launcher's tag.

        A line without a tag, as all of torchrun, may be of any rank.
        """
        shown = []
        for path in (self._paths.stdout, self._paths.stderr):
            start = self._printed.get(path, 0)
            try:
                with path.open("rb") as file:
                    file.seek(start)
                    whole = file.read(_MOST_PRINTED).rpartition(b"\n")[0]
            except OSError:
                continue
            if not whole:
                continue
            self._printed[path] = start + len(whole) + 1
            for line in whole.decode("utf-8", errors="replace").split("\n"):
                # A bar that draws itself anew in one line is shown as it was last.
                rank, text = split_rank(without_colours(line.rstrip("\r").rpartition("\r")[2]))
                shown += [text] if rank in (0, None) else []
        return shown

    def _continue(self, path: Path, state: RankState) -> None:
        try:
            with path.open("rb") as file:
                file.seek(state.size_bytes)
                added = file.read()
        except OSError:
            # Not readable over a network just now: the next update continues.
            return
        state.size_bytes += len(added)
        *lines, rest = (self._carried.get(state.rank, b"") + added).split(b"\n")
        self._carried[state.rank] = rest
        for line in lines:
            if is_step(line):
                state.num_steps += 1
            elif line:
                _apply(state, line)

    def ended_segments(self, size: int) -> set[str]:
        """The segments that all ranks have ended; none while a rank has no file."""
        if len(self.ranks) < size:
            return set()
        return set.intersection(*(state.ended for state in self.ranks.values()))


def _apply(state: RankState, text: bytes) -> None:
    try:
        _read(state, text)
    except (ValueError, KeyError, TypeError, RecursionError):
        # A damaged line is reported by the reader (ingest); progress continues with the next one.
        state.problems.append("a damaged line in the recorder file")


def _read(state: RankState, text: bytes) -> None:
    line = from_bytes(text)
    if line["kind"] == "header":
        state.header = line
    elif line["kind"] == "segment":
        state.segment, state.num_steps = line["id"], 0
    elif line["kind"] == "window":
        state.num_steps += line["num_steps"]
    elif line["kind"] == "segment_end":
        state.ended.add(line["id"])
        state.segment = None
    elif line["kind"] == "timeline" and line["action"] == "start":
        state.timelines[state.segment or ""] = str(line["file"])
    elif line["kind"] == "problem":
        state.problems.append(str(line["message"]))
        if line.get("about") == "timeline":
            state.timeline_problems.append(state.problems[-1])
    elif line["kind"] == "end":
        state.finished = True


def positions(progress: PassProgress, blocked: Sequence[StalledRank]) -> str:
    """How far each rank was, and where it is blocked, in one clause."""
    states = sorted(progress.ranks.values(), key=lambda state: state.rank)
    if not states:
        return "no rank had begun to record"
    where = {stalled.rank: f", {stalled.activity()}" for stalled in blocked}
    listed = [
        f"rank {state.rank} {_position(state)}{where.get(state.rank, '')}"
        for state in states[:MAX_NAMED_RANKS]
    ]
    num_more = len(states) - MAX_NAMED_RANKS
    return "; ".join([*listed, f"{num_more} more ranks"] if num_more > 0 else listed)


def _position(state: RankState) -> str:
    if state.finished:
        return "had finished"
    if state.segment is None:
        return "was between segments"
    return f"had done {state.num_steps} steps"


def first_stack(blocked: Sequence[StalledRank]) -> list[str]:
    """The stack of the first rank that has one."""
    return next((stalled.stack_lines() for stalled in blocked if stalled.stack), [])


def rank_behind(progress: PassProgress) -> int | None:
    """The rank that has done the fewest steps; None where all have done as many."""
    running = [state for state in progress.ranks.values() if not state.finished]
    counts = {state.num_steps for state in running}
    if len(counts) < 2:
        return None
    return min(running, key=lambda state: state.num_steps).rank


class RankProcesses:
    """Looks at the processes of the ranks that run on this host."""

    def __init__(self, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._clock = clock
        self._host = socket.gethostname()
        self._here = boot_id(), pid_namespace()
        self._visible: set[int] = set()
        self._exited_since_s: float | None = None
        self._stopped_since_s: dict[int, float] = {}
        self._longest_s: dict[int, float] = {}

    @property
    def have_exited(self) -> bool:
        """Whether all ranks have run on this host, and have been gone for the grace time.

        A rank that ends between two looks is never seen running. It counts where its header names
        this boot and this namespace of process ids.
        """
        since_s = self._exited_since_s
        return since_s is not None and self._clock() - since_s >= EXITED_GRACE_S

    @property
    def stopped_s(self) -> Mapping[int, float]:
        """For how long a signal stopped a rank at a stretch, while another one ran."""
        return self._longest_s

    def look(self, ranks: Mapping[int, RankState]) -> None:
        """Look once; called several times per second."""
        now_s = self._clock()
        letters = {
            rank: state_letter(state.header["pid"])
            for rank, state in ranks.items()
            if state.header is not None and self._runs_here(state.header)
        }
        self._visible |= {
            rank
            for rank, letter in letters.items()
            if letter or self._is_known_here(ranks[rank].header)
        }
        have_run = len(self._visible) == self._size == len(letters)
        if have_run and not any(letters.values()):
            self._exited_since_s = now_s if self._exited_since_s is None else self._exited_since_s
        else:
            self._exited_since_s = None
        stopped = {rank for rank, letter in letters.items() if is_stopped(letter)}
        if len(stopped) == len(letters):
            # As a whole launch is that waits for its turn.
            stopped = set()
        self._stopped_since_s = {
            rank: self._stopped_since_s.get(rank, now_s) for rank in sorted(stopped)
        }
        for rank, since_s in self._stopped_since_s.items():
            self._longest_s[rank] = max(self._longest_s.get(rank, 0.0), now_s - since_s)

    def _runs_here(self, header: HeaderLine) -> bool:
        # A script may have written the file: what the recorder writes is complete.
        return "pid" in header and header.get("host", {}).get("hostname") == self._host

    def _is_known_here(self, header: HeaderLine | None) -> bool:
        """Whether a process of that number would be seen here while it runs."""
        if header is None or not all(self._here):
            return False
        return (header["host"].get("boot_id"), header.get("pid_namespace")) == self._here
