"""How far each rank of a pass got, read from the recorder files while they grow.

Only the short lines are parsed; of the step lines, by far the most, just the last one of a rank.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hvdprof.rundir.layout import PassPaths

_STEP = b'"kind": "step"', b'"kind":"step"'


@dataclass(slots=True)
class RankState:
    """What one rank's recorder file says so far.

    ``segment`` is the one that runs, None between segments; ``num_steps`` counts its steps.
    ``ended`` holds the segments that ran to their end, ``finished`` says the file was closed;
    ``timelines`` are the files of Horovod's timelines that it began, in the pass, by segment.
    """

    rank: int
    header: dict[str, Any] | None = None
    segment: str | None = None
    num_steps: int = 0
    ended: set[str] = field(default_factory=set)
    finished: bool = False
    problems: list[str] = field(default_factory=list)
    timelines: dict[str, str] = field(default_factory=dict)
    size_bytes: int = 0


class PassProgress:
    """The states of all ranks of a pass; ``update`` reads what was added since."""

    def __init__(self, paths: PassPaths) -> None:
        self._paths = paths
        self._carried: dict[int, bytes] = {}
        self.ranks: dict[int, RankState] = {}

    def update(self) -> int:
        """Read on in every recorder file; the bytes read so far, which grow as ranks get on."""
        for path in self._paths.recorder_files():
            rank = int(path.stem.removeprefix("rank-"))
            self._read_on(path, self.ranks.setdefault(rank, RankState(rank)))
        return sum(state.size_bytes for state in self.ranks.values())

    def _read_on(self, path: Path, state: RankState) -> None:
        try:
            with path.open("rb") as file:
                file.seek(state.size_bytes)
                added = file.read()
        except OSError:
            # Not readable over a network just now: the next look reads on.
            return
        state.size_bytes += len(added)
        *lines, rest = (self._carried.get(state.rank, b"") + added).split(b"\n")
        self._carried[state.rank] = rest
        for line in lines:
            if line[:40].find(_STEP[0]) >= 0 or line[:40].find(_STEP[1]) >= 0:
                state.num_steps += 1
            elif line:
                _apply(state, line)

    def ended_segments(self, size: int) -> set[str]:
        """The segments that all ranks have ended; none while a rank has no file."""
        if len(self.ranks) < size:
            return set()
        return set.intersection(*(state.ended for state in self.ranks.values()))


def _apply(state: RankState, line: bytes) -> None:
    try:
        record = json.loads(line)
        kind = record["kind"]
    except (ValueError, KeyError, TypeError):
        # A damaged line is the reader's affair (ingest); progress goes on with the next one.
        state.problems.append("a damaged line in the recorder file")
        return
    if kind == "header":
        state.header = record
    elif kind == "segment":
        state.segment, state.num_steps = record["id"], 0
    elif kind == "segment_end":
        state.ended.add(record["id"])
        state.segment = None
    elif kind == "timeline" and record.get("action") == "start":
        state.timelines[state.segment or ""] = str(record.get("file"))
    elif kind == "problem":
        state.problems.append(str(record.get("message")))
    elif kind == "end":
        state.finished = True
