"""The progress of each rank of a pass, read from the recorder files while they grow.

Only the short lines are parsed; of the step lines, by far the most, just the last one of a rank.
"""

from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.collect.auto.startup.hvdprof_import_hook import NOTICE
from hvdprof.rundir.failures.log_prefixes import split_rank, without_colours
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.recorder_codec import from_bytes, is_step
from hvdprof.rundir.recording.recorder_format import HeaderLine

_MOST_PRINTED = 262_144
"""Bytes of a file that are shown at once; the rest follows with the next look."""


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
