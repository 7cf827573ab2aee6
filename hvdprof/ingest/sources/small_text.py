"""A small text that a user names: a table to read by eye, from a file or a stream."""

from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources.listing import missing, unreadable
from hvdprof.ingest.sources.streams import descriptor_of, file_of_stream
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.rundir.file_names import shown_name
from hvdprof.rundir.regular_file import open_regular
from hvdprof.units import byte_size

MOST_BYTES = 16_000_000


def small_text(path: Path) -> str:
    """The text of a file in UTF-8; other bytes are replaced.

    Args:
        path: The file; ``-`` is standard input.

    Raises:
        UnreadableInputError: It cannot be read, is no file or pipe, or holds far too much.
    """
    with Workspace() as workspace:
        descriptor = descriptor_of(path)
        if descriptor is not None:
            path = file_of_stream(path, descriptor, workspace)
        try:
            with open_regular(path) as file:
                content = file.read(MOST_BYTES + 1)
        except FileNotFoundError as error:
            raise missing(path) from error
        except OSError as error:
            raise unreadable(path, error) from error
        if len(content) > MOST_BYTES:
            raise UnreadableInputError(
                f"{shown_name(path)} holds more than {byte_size(MOST_BYTES)}, which is no table of "
                "ranks and speeds."
            )
    return content.decode("utf-8-sig", errors="replace")
