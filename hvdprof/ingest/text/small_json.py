"""Small JSON reports of other tools, which may be torn, hostile or too large."""

from collections.abc import Mapping
from pathlib import Path

from hvdprof.rundir.json_codec import parse_json
from hvdprof.rundir.regular_file import open_regular

_MOST_BYTES = 64 * 2**20


def read_json_mapping(path: Path, *, after_head: bool = False) -> Mapping[str, object]:
    """The object that a file holds.

    Args:
        path: The file.
        after_head: What stands before the first brace is skipped.

    Raises:
        ValueError: It is too large, or what ``parse_json`` refuses, or holds something else.
        OSError: It cannot be read.
    """
    data = read_small(path)
    return mapping_of(parse_json(data[data.index(b"{") if after_head else 0 :]))


def read_small(path: Path) -> bytes:
    """What a file of at most 64 MiB holds.

    Raises:
        ValueError: It is too large.
        OSError: It cannot be read.
    """
    with open_regular(path) as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError("it is too large")
    return data


def mapping_of(value: object) -> Mapping[str, object]:
    """A value as a mapping.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, dict):
        raise ValueError("no mapping")
    return value
