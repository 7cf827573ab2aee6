"""The parts of a recorded step: phases with the blocked time taken out of them."""

from typing import Any

from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.step_parts import RECORDED_PARTS

NUM_STEP_PARTS = len(RECORDED_PARTS)
UNSEEN = -(2**62) - 1
"""In place of a length that was not seen: no whole number that a file may hold."""

Interval = tuple[int, int]


def part_lengths(line: dict[str, Any]) -> tuple[int, ...]:
    """The length of each of ``model.parts.RECORDED_PARTS`` in a ``step`` line, ns, or ``UNSEEN``.

    Blocked time is taken out of the phase in which it lies, so that no time counts twice;
    ``other`` is what is left of the step, so that the parts sum to its length exactly (it is
    negative where a script nests its phases). Blocked time that was not seen lies there too.

    Raises:
        KeyError, TypeError, ValueError: The line is damaged.
    """
    blocked = [_interval(offset, length) for offset, length in _told_blocked(line)]
    lengths = dict.fromkeys(RECORDED_PARTS, 0)
    lengths["blocked"] = sum(stop - start for start, stop in blocked)
    for name, offset, length in line["phases"]:
        if name not in lengths or name in ("blocked", "other"):
            continue
        start, stop = _interval(offset, length)
        covered = sum(max(0, min(stop, b[1]) - max(start, b[0])) for b in blocked)
        lengths[name] += stop - start - covered
    lengths["other"] = whole(line["dur_ns"]) - sum(lengths.values())
    told = {name: whole(length) for name, length in lengths.items()}
    return tuple((told | {"blocked": UNSEEN} if line["blocked"] is None else told).values())


def intervals(line: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Name, offset and length in ns of every phase and blocked time of a ``step`` line.

    Raises:
        KeyError, TypeError, ValueError: The line is damaged.
    """
    named = [(str(name), whole(offset), whole(length)) for name, offset, length in line["phases"]]
    blocked = _told_blocked(line)
    return named + [("blocked", whole(offset), whole(length)) for offset, length in blocked]


def _told_blocked(line: dict[str, Any]) -> Any:
    """Offsets and lengths of blocked times; none where nobody saw them."""
    return () if line["blocked"] is None else line["blocked"]


def _interval(offset: Any, length: Any) -> Interval:
    start = whole(offset)
    return start, start + whole(length)
