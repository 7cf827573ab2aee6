"""Small JSON reports of other tools, which may be torn, hostile or too large."""

from collections.abc import Mapping
from pathlib import Path

from hvdprof.ingest.text.compression import DAMAGE, Readable, compression_of, unpacked
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


def read_small(path: Path, most_bytes: int | None = None) -> bytes:
    """What a file holds, compressed or not, up to where compressed data is cut or damaged.

    Raises:
        ValueError: It is too large: more than ``most_bytes``, 64 MiB by default.
        OSError: It cannot be read.
    """
    most_bytes = _MOST_BYTES if most_bytes is None else most_bytes
    with open_regular(path) as source:
        data = source.read(most_bytes + 1)
        if compression := compression_of(data):
            data = _unpacked(unpacked(source, compression), most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"is too large: it holds more than {most_bytes // 2**20} MiB")
    return data


def _unpacked(stream: Readable, size: int) -> bytes:
    pieces, left = [], size
    try:
        while left and (piece := stream.read1(left)):
            pieces.append(piece)
            left -= len(piece)
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
    return b"".join(pieces)


def mapping_of(value: object) -> Mapping[str, object]:
    """A value as a mapping.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, dict):
        raise ValueError("no mapping")
    return value
