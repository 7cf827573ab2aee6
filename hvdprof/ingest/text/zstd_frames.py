"""Whether zstd data is whole, told by the lengths in it; nothing is unpacked.

The stream reader of the zstandard package ends without a word where the data does. The layout is
that of RFC 8878, section 3.1: frames of a header, blocks that state their length, and a checksum.
"""

from typing import IO

_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_RLE = 1


def ends_early(source: IO[bytes], size: int) -> bool:
    """Whether the last frame of zstd data is cut off.

    Data that is damaged otherwise is for the decoder to refuse, and is not said to end early.

    Args:
        source: The file, which is read from its beginning and left anywhere.
        size: Its length in bytes.
    """
    source.seek(0)
    while source.tell() < size:
        magic = source.read(4)
        number = int.from_bytes(magic, "little")
        skip = _skip_skippable if number & ~0xF == _SKIPPABLE else _skip_frame
        if len(magic) < 4:
            return True
        if skip is _skip_frame and number != _MAGIC:
            return False
        if not skip(source, size):
            return True
    return False


def _skip_skippable(source: IO[bytes], size: int) -> bool:
    length = source.read(4)
    return len(length) == 4 and source.seek(int.from_bytes(length, "little"), 1) <= size


def _skip_frame(source: IO[bytes], size: int) -> bool:
    """Go behind a frame whose magic number was read; whether all of it is there."""
    told = source.read(1)
    if not told:
        return False
    (flags,) = told
    single_segment = bool(flags & 0x20)
    content_size = _CONTENT_SIZE_BYTES[flags >> 6] or int(single_segment)
    window = int(not single_segment)
    source.seek(window + _DICTIONARY_BYTES[flags & 3] + content_size, 1)
    last = False
    while not last:
        header = source.read(3)
        if len(header) < 3:
            return False
        number = int.from_bytes(header, "little")
        last, kind, length = bool(number & 1), number >> 1 & 3, number >> 3
        source.seek(1 if kind == _RLE else length, 1)
    checksum = 4 if flags & 4 else 0
    return source.seek(checksum, 1) <= size
