"""The prefix of an NCCL line: process, thread, device, level.

Tested in ``tests/ingest/nccl/test_corpus.py``.
"""

import re
from dataclasses import dataclass

from hvdprof.rundir.log_prefixes import tagged_rank

LEVELS = "INFO|WARN|TRACE|VERSION|CALL|ABORT|ERROR"

HEAD = re.compile(
    r"(?P<host><\w+>|\w[\w.-]{0,253}):(?P<pid>\d{1,9}):(?P<tid>\d{1,9}) "
    r"(?:\[(?P<device>-?\d{1,4})\] )?"
    r"(?:(?P<where>[^\s\[\]]+:\d{1,7}) |\d+\.\d+ (?P<function>\S+:\d{1,7}) )?"
    rf"(?:[NR]CCL )?(?P<level>{LEVELS})(?: |$)"
)
"""A prefix of NCCL 2.2 to 2.27; 2.2 lacks the word NCCL, CALL lacks the device."""


@dataclass(frozen=True, slots=True)
class Head:
    """A read prefix; ``device`` and ``tag_rank`` are ``None`` where the line has none."""

    host: str
    pid: int
    tid: int
    device: int | None
    level: str
    where: str
    tag_rank: int | None


def read_head(found: re.Match[str], rank: int | None) -> Head:
    """The prefix that ``HEAD`` matched, with the rank in the launcher's tag before it.

    Args:
        found: The match in a line that may have tags of launchers inside.
        rank: The rank in the log prefix of the line.
    """
    device = found["device"]
    tagged = tagged_rank(found.string[: found.start()])
    return Head(
        host=found["host"],
        pid=int(found["pid"]),
        tid=int(found["tid"]),
        device=None if device is None else int(device),
        level=found["level"],
        where=found["where"] or found["function"] or "",
        tag_rank=rank if tagged is None else tagged,
    )
