"""What stands before the words of an NCCL line: process, thread, device, level, and any wrapper."""

import re
from dataclasses import dataclass

LEVELS = "INFO|WARN|TRACE|VERSION|CALL|ABORT|ERROR"

HEAD = re.compile(
    r"(?P<host><\w+>|\w[\w.-]{0,253}):(?P<pid>\d{1,9}):(?P<tid>\d{1,9}) "
    r"(?:\[(?P<device>-?\d{1,4})\] )?"
    r"(?:(?P<where>[^\s\[\]]+:\d{1,7}) |\d+\.\d+ (?P<function>\S+:\d{1,7}) )?"
    rf"(?:[NR]CCL )?(?P<level>{LEVELS})(?: |$)"
)
"""A prefix of NCCL 2.2 to 2.27; 2.2 lacks the word NCCL, CALL lacks the device."""

TAGS = re.compile(
    r"(?:\w{3} \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4})?"
    r"\[(?:\d+,)?(?:mpirank:)?(?P<rank>\d{1,7})(?:,[\w-]+)?\]<std(?:out|err)>: ?"
)
"""The tag of mpirun, horovodrun or SageMaker, with its date where one is printed."""

_SRUN = re.compile(r"^\s*(?P<rank>\d{1,7}): ")


@dataclass(frozen=True, slots=True)
class Head:
    """A read prefix; ``device`` and ``tag_rank`` are ``None`` where they are not told."""

    host: str
    pid: int
    tid: int
    device: int | None
    level: str
    where: str
    tag_rank: int | None


def read_head(found: re.Match[str]) -> Head:
    """The prefix that ``HEAD`` matched, with the rank that a wrapper before it states."""
    device = found["device"]
    return Head(
        host=found["host"],
        pid=int(found["pid"]),
        tid=int(found["tid"]),
        device=None if device is None else int(device),
        level=found["level"],
        where=found["where"] or found["function"] or "",
        tag_rank=tag_rank(found.string[: found.start()]),
    )


def tag_rank(wrapper: str) -> int | None:
    """The rank that the last launcher's tag in a text states; ``None`` where there is no tag."""
    ranks = [tag["rank"] for tag in TAGS.finditer(wrapper)]
    if ranks:
        return int(ranks[-1])
    numbered = _SRUN.match(wrapper)
    return int(numbered["rank"]) if numbered else None
