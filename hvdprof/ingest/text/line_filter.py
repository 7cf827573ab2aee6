"""Which lines of a block a reader wants: one pass over all bytes, before any line is touched.

Patterns are RE2's, which Arrow runs over all lines at once. They see lines as they are in the file,
behind any log prefix.
"""

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

EVERY_LINE = ""
"""The pattern of a reader that wants all lines."""

_ANCHOR = re.compile(r"(?<![\\\[])\^(?:\\s[*+])?|(?<![\\])\$")
_NAMED = re.compile(r"\(\?P<\w+>")


def anywhere(*patterns: str) -> str:
    """A pattern that finds any of some patterns, which are of lines without log prefixes.

    Args:
        patterns: Without look-around and back-references, which RE2 does not know.
    """
    plain = (_NAMED.sub("(?:", _ANCHOR.sub("", pattern)) for pattern in patterns)
    return "|".join(f"(?:{pattern})" for pattern in dict.fromkeys(plain))


def matching(data: bytes, bounds: npt.NDArray[np.int64], pattern: str) -> npt.NDArray[np.int64]:
    """The places of the lines that a pattern finds.

    Args:
        data: The lines.
        bounds: Where each begins, and the end of the last.
        pattern: Of RE2.
    """
    offsets = pa.py_buffer(bounds.astype(np.int32))
    lines = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)])
    found = pc.match_substring_regex(lines, pattern)
    return np.flatnonzero(found.to_numpy(zero_copy_only=False))


def matching_texts(texts: Iterable[str], pattern: str) -> npt.NDArray[np.int64]:
    """The places of the texts that a pattern finds."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return matching(b"".join(encoded), bounds, pattern)
