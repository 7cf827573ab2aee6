"""The parts of a recorded step: phases less the blocked time in them."""

from collections.abc import Sequence

from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.step_parts import RECORDED_PARTS
from hvdprof.rundir.recording.recorder_format import NOT_SUBMITTED, Interval, StepLine

NUM_STEP_PARTS = len(RECORDED_PARTS)
EVALUATION = "evaluation"
"""The phase of an evaluation that the recorder itself has seen."""

UNSEEN = -(2**62) - 1
"""In place of an unknown length: outside the whole numbers that a file may hold."""


def part_lengths(line: StepLine) -> tuple[int, ...]:
    """The length of each of ``model.step_parts.RECORDED_PARTS`` in a step, ns, or ``UNSEEN``.

    Blocked time is subtracted from the phase in which it lies, so that no time counts twice;
    ``outside`` is the rest of the step, so that the parts sum to its length exactly (it is
    negative where a script nests its phases). Unknown blocked time is part of it.

    Raises:
        KeyError, TypeError, ValueError: The line is damaged.
    """
    pieces = [
        (name, *_interval(offset, length))
        for name, offset, length in line["phases"]
        if name != "blocked"
    ]
    pieces += [("blocked", *_interval(*blocked)) for blocked in _known_blocked(line)]
    lengths = dict.fromkeys(RECORDED_PARTS, 0) | summed_lengths(pieces)
    lengths["outside"] = whole(line["dur_ns"]) - sum(lengths.values())
    checked = {name: whole(length) for name, length in lengths.items()}
    if line["blocked"] is None:
        checked["blocked"] = UNSEEN
    return tuple(checked.values())


def summed_lengths(pieces: Sequence[tuple[str, int, int]]) -> dict[str, int]:
    """The length in ns that pieces of a step add to each of its parts, without ``outside``.

    Args:
        pieces: Name, start and end of phases and blocked times; those of other names add nothing.
    """
    blocked = [(start, stop) for name, start, stop in pieces if name == "blocked"]
    lengths: dict[str, int] = {}
    for name, start, stop in pieces:
        if name not in RECORDED_PARTS or name == "outside":
            continue
        covered = 0
        if name != "blocked":
            covered = sum(max(0, min(stop, b[1]) - max(start, b[0])) for b in blocked)
        lengths[name] = lengths.get(name, 0) + stop - start - covered
    return lengths


def intervals(line: StepLine) -> list[tuple[str, int, int]]:
    """Name, offset and length in ns of every phase and blocked time of a ``step`` line.

    Raises:
        KeyError, TypeError, ValueError: The line is damaged.
    """
    named = [(str(name), whole(offset), whole(length)) for name, offset, length in line["phases"]]
    blocked = _known_blocked(line)
    return named + [("blocked", whole(offset), whole(length)) for offset, length in blocked]


def waits(line: StepLine) -> list[tuple[str, int, int, int, int]]:
    """Kind, offset, length, submission and ranks of every wait whose kind a ``step`` line says.

    Times are in ns; the offset of the submission is ``UNSEEN`` where unknown.

    Raises:
        KeyError, TypeError, ValueError: The line is damaged.
    """
    kinds, blocked = line.get("waits", ()), _known_blocked(line)
    if not kinds:
        return []
    if len(kinds) != len(blocked):
        raise ValueError("every blocked time has a kind, or none")
    return [
        (
            str(kind),
            whole(offset),
            whole(length),
            UNSEEN if submitted == NOT_SUBMITTED else whole(submitted),
            whole(num_ranks),
        )
        for (kind, submitted, num_ranks), (offset, length) in zip(kinds, blocked, strict=True)
    ]


def evaluation_end(line: StepLine, pieces: Sequence[tuple[str, int, int]]) -> int:
    """The end of the last evaluation after the begin of the step, ns; -1 without one.

    Args:
        line: A ``step`` line.
        pieces: Its ``intervals``.
    """
    if not line.get("evaluation"):
        return -1
    ends = (offset + length for name, offset, length in pieces if name == EVALUATION)
    return max(ends, default=0)


def _known_blocked(line: StepLine) -> Sequence[Interval]:
    """Offsets and lengths of blocked times; none where they are unknown."""
    return () if line["blocked"] is None else line["blocked"]


def _interval(offset: int, length: int) -> Interval:
    start = whole(offset)
    return start, start + whole(length)
