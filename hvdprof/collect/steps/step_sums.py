"""What a light recording keeps of a step: the length of its parts, and its waits by kind.

The parts are those of a full recording (``ingest.recorder.step_phases``): phases without the
blocked time in them. Tested by tests/collect/steps/test_step_sums.py.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE, Interval, Phase, StepLine

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


def part_lengths(line: StepLine, parts: Container[str] = PHASE_PARTS) -> dict[str, int]:
    """Length of each of some phases that the step has, ns, blocked time in it excluded.

    Args:
        line: A finished step.
        parts: The names of the phases.
    """
    phases = sorted((phase for phase in line["phases"] if phase[2] > 0), key=_start)
    lengths: dict[str, int] = {}
    for name, _, length in phases:
        if name in parts:
            lengths[name] = lengths.get(name, 0) + length
    first, num = 0, len(phases)
    for start, length in sorted(line["blocked"] or ()):
        end = start + length
        # Phases never overlap: those that end before this wait end before all later ones.
        while first < num and phases[first][1] + phases[first][2] <= start:
            first += 1
        place = first
        while place < num and phases[place][1] < end:
            name, begin, span = phases[place]
            if name in lengths:
                lengths[name] -= min(end, begin + span) - max(start, begin)
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
        one = found.get(kind)
        if one is None:
            one = found[kind] = KindOfWait(num_ranks=num_ranks)
        elif one.num_ranks != num_ranks:
            one.num_ranks = 0
        one.number += 1
        one.own_ns += max(start - released, 0)
        one.blocked_ns += length
        released = max(released, start + length)
    return found


def after_last_wait(line: StepLine) -> int:
    """Time from the end of the last wait to the end of the step, ns; 0 without a wait."""
    ends = [start + length for start, length in line["blocked"] or ()]
    return line["dur_ns"] - max(ends) if ends else 0


def _start(phase: Phase) -> int:
    return phase[1]
