"""Spans of bytes in a text, found and known again eight bytes at a time, compiled.

A span that the JSON decoder took for a valid value once is one wherever the same bytes stand.
"""

from typing import NamedTuple

import numpy as np

from hvdprof.model.arrays import Int32s, Text, Uint64s


class Spans(NamedTuple):
    """Known spans: ``slots`` (open addressing, -1 for a free one) point to rows of ``entries``.

    A row is (place in ``words``, length, hash, code); ``words`` holds the bytes, padded with zeros.
    """

    slots: Int32s
    words: Uint64s
    entries: Uint64s


ONES = np.uint64(0x0101010101010101)
HIGHS = np.uint64(0x8080808080808080)
QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
BRACES = np.uint64(0x7D7D7D7D7D7D7D7D)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def byte_at(text: Text, place: int) -> int:
    """The byte at a place, which is not negative: numba then spares the check for that."""
    return np.int64(text[0][np.uint64(place)])


def word_at(text: Text, place: int) -> np.uint64:
    """The eight bytes from a place on."""
    return text[1][np.uint64(place)]


def mix(hash_so_far: np.uint64, word: np.uint64) -> np.uint64:
    """The hash with one more word in it."""
    mixed = (hash_so_far ^ word) * _PRIME
    return mixed ^ (mixed >> _SHIFT)


def find_span(text: Text, start: int, end: int, last: np.uint64) -> tuple[int, np.uint64]:
    """The first place of a byte (given eight times), -1 behind a backslash, and the span's hash."""
    hash_so_far = np.uint64(0)
    place = start
    while place < end:
        word = word_at(text, place)
        found = word ^ last
        found = (found - ONES) & ~found & HIGHS
        escaped = word ^ _BACKSLASHES
        escaped = (escaped - ONES) & ~escaped & HIGHS
        if found == 0:
            if escaped != 0:
                return -1, hash_so_far
            hash_so_far = mix(hash_so_far, word)
            place += 8
            continue
        lowest = found & (~found + np.uint64(1))
        if escaped & (lowest - np.uint64(1)) != 0:
            return -1, hash_so_far
        below = (lowest >> np.uint64(7)) - np.uint64(1)
        width = ((below & ONES) * ONES) >> np.uint64(56)
        if width > 0:
            low_bytes = word & ((np.uint64(1) << (np.uint64(8) * width)) - np.uint64(1))
            hash_so_far = mix(hash_so_far, low_bytes)
        return place + np.int64(width), hash_so_far
    return -1, hash_so_far


def known(spans: Spans, text: Text, start: int, length: int, hashed: np.uint64) -> int:
    """Code of a span, -1 where it is new."""
    slots, words, entries = spans
    mask = np.uint64(len(slots) - 1)
    slot = (hashed ^ np.uint64(length)) & mask
    while True:
        entry = slots[slot]
        if entry < 0:
            return np.int64(-1)
        row = np.uint64(entry)
        is_alike = entries[row, 2] == hashed and entries[row, 1] == np.uint64(length)
        if is_alike and same_bytes(words, entries[row, 0], text, start, length):
            return np.int64(entries[row, 3])
        slot = (slot + np.uint64(1)) & mask


def same_bytes(words: Uint64s, first: np.uint64, text: Text, start: int, length: int) -> bool:
    """Whether a known span, padded with zeros, has these bytes."""
    last = start + (length & ~7)
    while start < last:
        if words[first] != word_at(text, start):
            return False
        first += np.uint64(1)
        start += 8
    rest = np.uint64(length & 7)
    if rest == 0:
        return True
    low_bytes = word_at(text, start) & ((np.uint64(1) << (np.uint64(8) * rest)) - np.uint64(1))
    return words[first] == low_bytes


def digits(text: Text, start: int, longest: int) -> tuple[int, int]:
    """A whole number without sign and the place after it; the place is -1 where there is none."""
    place = start
    value = np.int64(0)
    digit = byte_at(text, place) - 48
    while 0 <= digit <= 9:
        value = value * 10 + digit
        place += 1
        digit = byte_at(text, place) - 48
        if place - start > longest:
            return 0, -1
    if place == start or (byte_at(text, start) == 48 and place - start > 1):
        return 0, -1
    return value, place


class SpanTable:
    """Known spans with their codes; ``spans`` is what compiled code looks them up in."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self.spans = _table({})

    def learn(self, span: bytes, code: int) -> None:
        """Know a span from now on; the table grows as it has to."""
        if span in self._known:
            return
        self._known[span] = code
        if not _added(self.spans, span, code, len(self._known) - 1):
            self.spans = _table(self._known)


_FEWEST_ENTRIES, _WORDS_EACH = 256, 16
_WHOLE_WORD = (1 << 64) - 1


def _table(known_spans: dict[bytes, int]) -> Spans:
    entries = _FEWEST_ENTRIES
    while entries < 2 * len(known_spans) + 1:
        entries *= 2
    needed = 2 * sum(len(span) // 8 + 1 for span in known_spans)
    slots = np.full(4 * entries, -1, np.int32)
    words = np.zeros(max(entries * _WORDS_EACH, needed), np.uint64)
    rows = np.zeros((entries + 1, 4), np.uint64)
    spans = Spans(slots, words, rows)
    for entry, (span, code) in enumerate(known_spans.items()):
        _added(spans, span, code, entry)
    return spans


def _added(spans: Spans, span: bytes, code: int, entry: int) -> bool:
    first = int(spans.entries[entry, 0])
    num_words = len(span) // 8 + 1
    if entry + 1 >= len(spans.entries) or first + num_words > len(spans.words):
        return False
    padded = np.frombuffer(span.ljust(8 * num_words, b"\0"), np.uint64)
    spans.words[first : first + num_words] = padded
    hashed = 0
    for word in padded if len(span) % 8 else padded[:-1]:
        mixed = (hashed ^ int(word)) * int(_PRIME) & _WHOLE_WORD
        hashed = mixed ^ (mixed >> int(_SHIFT))
    spans.entries[entry] = (first, len(span), hashed, code)
    spans.entries[entry + 1, 0] = first + num_words
    slot = (hashed ^ len(span)) & (len(spans.slots) - 1)
    while spans.slots[slot] >= 0:
        slot = (slot + 1) & (len(spans.slots) - 1)
    spans.slots[slot] = entry
    return True
