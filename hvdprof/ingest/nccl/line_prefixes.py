"""The prefix of an NCCL line: process, thread, device, level."""

import re
from dataclasses import dataclass

from hvdprof.rundir.failures.log_prefixes import tagged_rank

LEVELS = "INFO|WARN|TRACE|VERSION|CALL|ABORT|ERROR"

# 2.30 names the function of a warning behind its place.
_WHERE = r"(?:(?P<where>[^\s\[\]]+:\d{1,7}) (?:\([^\s()]{1,200}\) )?|"
_WHERE += r"\d+\.\d+ (?P<function>\S+:\d{1,7}) )?"

HEAD = re.compile(
    r"(?P<host><\w+>|(?<!\w)\w[\w.-]{0,253}):(?P<pid>\d{1,9}):(?P<tid>\d{1,9}) "
    rf"(?:\[(?P<device>-?\d{{1,4}})\] )?{_WHERE}"
    rf"(?:[NR]CCL )?(?P<level>{LEVELS})(?: |$)"
)
"""A prefix of NCCL 2.2 to 2.30; 2.2 lacks the word NCCL, CALL lacks the device."""

_SHORTENED = re.compile(
    r"(?:^|(?<=\s)|(?<=:))"
    r"(?:(?P<host>[A-Za-z][\w.-]{0,253}) |:?(?P<pid>\d{1,9}):(?P<tid>\d{1,9}) )?"
    r"(?:\[(?P<device>-?\d{1,4})\] |(?=[\w/]{1,80}\.(?:cc|cu|h):\d{1,7} [NR]CCL WARN ))"
    rf"{_WHERE}[NR]CCL (?P<level>{LEVELS})(?: |$)"
)
"""What is left of it in logs that people shortened: no host, nothing before the device or place."""


@dataclass(frozen=True, slots=True)
class Head:
    """A read prefix; ``device`` and ``tag_rank`` are ``None`` where the line has none.

    Without a process id in the line, ``pid`` is -1 for rank or device 0, -2 for the next, and so
    on: a process usually has one device.
    """

    host: str
    pid: int
    tid: int
    device: int | None
    level: str
    where: str
    tag_rank: int | None
    is_shortened: bool = False


def find_heads(text: str) -> list[re.Match[str]]:
    """All prefixes in a text; shortened ones where it has no complete one."""
    found = list(HEAD.finditer(text))
    if not found and "CCL " in text:
        shortened = _SHORTENED.search(text)
        return [] if shortened is None else [shortened]
    return found


def find_head(text: str) -> re.Match[str] | None:
    """The first of these."""
    return next(iter(find_heads(text)), None)


def read_head(found: re.Match[str], rank: int | None, host: str = "") -> Head:
    """The prefix that ``HEAD`` matched, with the rank in the launcher's tag before it.

    Args:
        found: The match in a line that may have tags of launchers inside.
        rank: The rank in the log prefix of the line.
        host: The host in that prefix, for logs without NCCL's own.
    """
    device = found["device"]
    inner = tagged_rank(found.string[: found.start()])
    tagged = rank if inner is None else inner
    number = int(device or 0) if tagged is None else tagged
    return Head(
        host=found["host"] or host,
        pid=-1 - max(number, 0) if found["pid"] is None else int(found["pid"]),
        tid=0 if found["tid"] is None else int(found["tid"]),
        device=None if device is None else int(device),
        level=found["level"],
        where=found["where"] or found["function"] or "",
        tag_rank=tagged,
        is_shortened=found["pid"] is None or found["host"] is None,
    )
