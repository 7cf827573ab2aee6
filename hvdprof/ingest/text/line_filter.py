"""Which lines of a block a reader wants: one pass over all bytes, before any line is touched.

Patterns are RE2's, which Arrow runs over all lines at once. They see lines as they are in the file,
behind any log prefix.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

EVERY_LINE = ""
"""The pattern of a reader that wants all lines."""

_ANCHOR = re.compile(r"(?<![\\\[])\^(?:\\s[*+])?|(?<![\\])\$")
_TOKEN = re.compile(r"(?:(\\[A-Za-z]|\[[^\]]*\]|[.^$])|\\?(.))([*+?]|\{[\d,]*\}|)")
_NAMED = re.compile(r"\(\?P<\w+>")


def anywhere(*patterns: str) -> str:
    """A pattern that finds any of some patterns, which are of lines without log prefixes.

    Args:
        patterns: Without look-around and back-references, which RE2 does not know.
    """
    plain = (_NAMED.sub("(?:", _ANCHOR.sub("", pattern)) for pattern in patterns)
    return "|".join(f"(?:{pattern})" for pattern in dict.fromkeys(plain))


@cache
def any_of(patterns: tuple[str, ...]) -> str:
    """A pattern that finds what any of some patterns finds, of those that want not every line."""
    return "|".join(f"(?:{pattern})" for pattern in patterns if pattern)


def literal_of(pattern: str) -> str:
    """Text that stands in all that a pattern finds, the longest before its first group.

    Args:
        pattern: Without alternatives outside of groups.
    """
    runs, end = [""], 0
    while (token := _TOKEN.match(pattern, end)) and not pattern.startswith("(?", end):
        end = token.end()
        special, plain, quantifier = token.groups()
        runs[-1] += plain if plain and quantifier in ("", "+") else ""
        runs += [""] * bool(special or quantifier)
    return max(runs, key=len)


def matching(
    data: bytes,
    bounds: npt.NDArray[np.int64],
    pattern: str,
    among: Sequence[int] | npt.NDArray[np.int64] | None = None,
) -> npt.NDArray[np.int64]:
    """The places of the lines that a pattern finds.

    Args:
        data: The lines.
        bounds: Where each begins, and the end of the last.
        pattern: Of RE2.
        among: Places of the lines that are looked at; all without.
    """
    lines = as_lines(data, bounds)
    looked_at = None if among is None else np.array(among, dtype=np.int64)
    found = pc.match_substring_regex(lines if looked_at is None else lines.take(looked_at), pattern)
    places = np.flatnonzero(found.to_numpy(zero_copy_only=False))
    return places if looked_at is None else looked_at[places]


def as_lines(data: bytes, bounds: npt.NDArray[np.int64]) -> pa.BinaryArray:
    """Lines with their ends as an array of Arrow that shares their bytes; as of ``matching``."""
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)])


def matching_texts(
    texts: Iterable[str], pattern: str, among: Sequence[int] | None = None
) -> npt.NDArray[np.int64]:
    """The places of the texts that a pattern finds, as ``matching``."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return matching(b"".join(encoded), bounds, pattern, among)
