"""What a watcher asks of a rank, in a file that the rank looks at; and how it is read.

``layout.request_file`` holds the latest requests to a rank, ``layout.answer_file`` what it
answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hvdprof.rundir.json_codec import DAMAGE, decode, parse_json, to_text
from hvdprof.rundir.regular_file import open_regular
from hvdprof.rundir.written_file import file_mode, write_whole

MOST_BYTES = 4096
MOST_WAITING = 4
"""Requests in a file; older ones are answered by then, or never."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a rank is asked for on an event.

    ``event`` is its number, ``samples`` whether lines and stacks are wanted, ``first_step`` the
    first step that torch.profiler is to record, -1 for none.
    """

    event: int
    samples: bool
    first_step: int = -1


@dataclass(frozen=True, slots=True)
class Requests:
    """The latest requests to a rank."""

    requests: list[Request]


def write_requests(path: Path, requests: Sequence[Request]) -> None:
    """Write the latest of some requests, whole.

    Raises:
        StorageError: The file cannot be written.
    """
    write_whole(path, to_text(Requests(list(requests[-MOST_WAITING:]))), mode=file_mode(path))


def read_requests(path: Path) -> list[Request]:
    """The requests in a file; none where it is damaged, too large or of another form.

    Raises:
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        text = file.read(MOST_BYTES + 1)
    try:
        found = decode(Requests, parse_json(text), path.name).requests
    except DAMAGE:
        return []
    is_bounded = len(text) <= MOST_BYTES and len(found) <= MOST_WAITING
    return found if is_bounded and all(one.event >= 0 for one in found) else []
