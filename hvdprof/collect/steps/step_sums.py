"""What a light recording keeps of a step: the length of its parts, and its waits by kind.

The parts are those of a full recording (``ingest.recorder.step_phases``): phases without the
blocked time in them. Tested by tests/collect/steps/test_step_sums.py.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof.rundir.recorder_format import GRAD_REDUCE, Interval, Phase, StepLine

PHASE_PARTS = ("data", "forward", "backward", "before_update", "optimizer")
BLOCKED = "blocked"


@dataclass(slots=True)
class KindOfWait:
    """The waits of one kind: their number, own time before them, their length (ns), their ranks.

    ``num_ranks`` is 0 where unknown, or where it differs between the waits.
    """

    number: int = 0
    own_ns: int = 0
    blocked_ns: int = 0
    num_ranks: int = 0

    def add(self, other: "KindOfWait") -> None:
        """Count further waits of the kind."""
        if self.number and other.num_ranks != self.num_ranks:
            self.num_ranks = 0
        elif not self.number:
            self.num_ranks = other.num_ranks
        self.number += other.number
        self.own_ns += other.own_ns
        self.blocked_ns += other.blocked_ns


def part_lengths(line: StepLine) -> dict[str, int]:
    """Length of each of ``PHASE_PARTS`` that the step has, ns, blocked time in it excluded.

    Args:
        line: A finished step.
    """
    phases = sorted((one for one in line["phases"] if one[2] > 0), key=_start)
    lengths: dict[str, int] = {}
    for name, _, length in phases:
        if name in PHASE_PARTS:
            lengths[name] = lengths.get(name, 0) + length
    starts = [start for _, start, _ in phases]
    for start, length in line["blocked"] or ():
        # Phases never overlap, so those that a wait lies in are neighbours.
        place = max(bisect_right(starts, start) - 1, 0)
        while place < len(phases) and phases[place][1] < start + length:
            name, begin, span = phases[place]
            covered = min(start + length, begin + span) - max(start, begin)
            if covered > 0 and name in lengths:
                lengths[name] -= covered
            place += 1
    return lengths


def waits_by_kind(line: StepLine) -> dict[str, KindOfWait]:
    """The waits of a step by their kind, in the order of the first one of each.

    Args:
        line: A finished step whose blocked time is known.
    """
    blocked: Sequence[Interval] = line["blocked"] or ()
    named = line.get("waits")
    kinds = [(kind, ranks) for kind, _, ranks in named] if named else [(GRAD_REDUCE, 0)]
    if not named:
        kinds *= len(blocked)
    found: dict[str, KindOfWait] = {}
    released = 0
    for (start, length), (kind, num_ranks) in sorted(zip(blocked, kinds, strict=True)):
        own = max(start - released, 0)
        released = max(released, start + length)
        found.setdefault(kind, KindOfWait()).add(KindOfWait(1, own, length, num_ranks))
    return found


def after_last_wait(line: StepLine) -> int:
    """Time from the end of the last wait to the end of the step, ns; 0 without a wait."""
    ends = [start + length for start, length in line["blocked"] or ()]
    return line["dur_ns"] - max(ends) if ends else 0


def _start(phase: Phase) -> int:
    return phase[1]
