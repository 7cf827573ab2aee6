"""The events of a profiler trace to rows of numbers, compiled.

The patterns of ``trace_records`` and ``trace_events`` begin with a quoted key, and the first match
in a record counts. So one pass over the quotation marks finds what they find in any spacing and
damage. Events of which more than numbers is needed are only found (``TO_READ``).
"""

import numpy as np

from hvdprof.ingest.timeline.compiled.kernel_spans import (
    HIGHS,
    ONES,
    QUOTES,
    byte_at,
    same_bytes,
    word_at,
)
from hvdprof.model.arrays import Int64s, Text, Uint64s

TO_READ, OPERATOR, AUTOGRAD, COMPUTE, RUNTIME, NUM_KINDS = range(6)
"""Kinds of rows; a row is start, end, number or correlation, thread. Of an event ``TO_READ`` it has
two places in the text, of ``RUNTIME`` correlation and start."""
ROW_WIDTH = 4

OTHER, OF_OPERATOR, OF_ANNOTATION, OF_KERNEL, OF_COPY, OF_RUNTIME = range(6)
"""What a category means."""

READ_OPERATOR, OF_AUTOGRAD, OF_NCCL, READ_RUNTIME = 1, 2, 4, 8
"""What a name begins with."""

PHASE, CATEGORY, NAME, PID, TID, TS, DUR, LINK, NUMBER, FORWARD, _ABSURD = range(11)
"""Fields; records start with one of the first six."""

_SEEN, _BEGINNING, NUM_RECORDS, IS_STOPPED, NUM_ROWS = range(11, 16)
"""State behind the fields; the last ones are records passed, whether ``take_events`` stopped as
there was no more room, and the rows of each kind."""
STATE_WIDTH = NUM_ROWS + NUM_KINDS

WORD_ROW, WORDS = 10, 3
"""Known words are rows of length, meaning, and how far behind the start of a record they may end;
their bytes follow, padded with zeros."""

_LETTERS = np.uint64(sum(1 << (ord(letter) - 64) for letter in "pcntdSF"))
_ONE, _BYTE, _THREE_BYTES, _FOUR_BYTES = map(np.uint64, (1, 0xFF, 0xFFFFFF, 0xFFFFFFFF))
_VOID = np.uint64(int.from_bytes(b"void", "little"))
_LATEST_NS, _LONGEST_NS, _MOST_US = 2**62, 2**53, 5 * 10**15
_TIME_DIGITS, _DIGITS = 16, 18


def take_events(
    text: Text, begin: int, end: int, known: tuple[Uint64s, ...], rows: Int64s, state: Int64s
) -> int:
    """Write down the events of a window; returns the start of the first that was not taken.

    Args:
        text: The text as bytes and as words; behind it are at least 64 zero bytes.
        begin: The start of a record.
        end: Where the text ends.
        known: Known words: keys, categories and beginnings of names.
        rows: Room for rows: the columns of each kind in turn.
        state: Receives what ``NUM_ROWS`` and the others name.
    """
    opened, place, is_wanted = np.int64(begin), np.int64(begin), False
    for counter in range(NUM_RECORDS, STATE_WIDTH):
        state[counter] = 0
    while place < end:
        found = word_at(text, place) ^ QUOTES
        found = (found - ONES) & ~found & HIGHS
        if found == 0:
            place += 8
            continue
        below = ((found & (~found + _ONE)) >> np.uint64(7)) - _ONE
        place += np.int64(((below & ONES) * ONES) >> np.uint64(56))
        field, value = field_at(text, place, known[0])
        start = start_before(text, place) if 0 <= field <= TS else np.int64(-1)
        if start >= 0:
            if start > opened:
                state[NUM_RECORDS] += 1
                if is_wanted and state[_SEEN] & 3 == 3:
                    add_event(rows, state, opened, start)
                if state[IS_STOPPED] != 0:
                    return start
            opened, is_wanted = start, True
            state[_SEEN] = state[_BEGINNING] = 0
        if is_wanted and field >= 0:
            is_wanted = take_field(text, value, field, opened, known, state)
        place += 1
    return opened


def field_at(text: Text, place: int, keys: Uint64s) -> tuple[int, int]:
    """The field whose key begins at a place, and the place of its value; -1 without them."""
    letter = ((word_at(text, place) >> np.uint64(8)) & _BYTE) - np.uint64(64)
    if letter < np.uint64(64) and (_LETTERS >> letter) & _ONE != 0:
        meaning = known_at(text, place, place, keys)
        colon = beside_blanks(text, place + (meaning >> 8), 1)
        if meaning > 0 and byte_at(text, colon) == 58:
            return meaning & 255, beside_blanks(text, colon + 1, 1)
    return np.int64(-1), np.int64(-1)


def known_at(text: Text, place: int, opened: int, words: Uint64s) -> int:
    """What the known word at a place of the record that starts at ``opened`` means; else 0."""
    word = word_at(text, place)
    for row in range(0, len(words), WORD_ROW):
        first, length = np.uint64(row + WORDS), np.int64(words[np.uint64(row)])
        if (words[first] ^ word) & _THREE_BYTES == 0 and (
            place + length - opened <= np.int64(words[np.uint64(row + 2)])
            and same_bytes(words, first, text, place, length)
        ):
            return np.int64(words[np.uint64(row + 1)])
    return np.int64(0)


def beside_blanks(text: Text, place: int, step: int) -> int:
    """The next place that holds no blank of a pattern, forwards or backwards."""
    byte = byte_at(text, place)
    while byte == 32 or 9 <= byte <= 13:
        place += step
        byte = byte_at(text, place)
    return place


def start_before(text: Text, place: int) -> int:
    """Where the record starts whose first key is at a place; -1 where the key is not the first."""
    brace = beside_blanks(text, place - 1, -1)
    if byte_at(text, brace) != 123:
        return np.int64(-1)
    place = beside_blanks(text, brace - 1, -1)
    return place if byte_at(text, place) == 44 or byte_at(text, place) == 91 else np.int64(-1)


def take_field(
    text: Text, at: int, field: int, opened: int, known: tuple[Uint64s, ...], state: Int64s
) -> bool:
    """Keep a field if it is the first that fits its pattern; whether the event may count."""
    is_quoted, is_new = byte_at(text, at) == 34, (state[_SEEN] >> field) & 1 == 0
    if field == NAME and is_quoted:
        bit = known_at(text, at + 1, opened, known[2])
        if word_at(text, at + 1) & _FOUR_BYTES == _VOID:
            behind = beside_blanks(text, at + 5, 1)
            bit = known_at(text, behind, opened, known[2]) & OF_NCCL if behind > at + 5 else bit
        # Of operators the first name that fits counts.
        if bit > OF_AUTOGRAD or state[_BEGINNING] & (READ_OPERATOR | OF_AUTOGRAD) == 0:
            state[_BEGINNING] |= bit
    elif field == PHASE and is_quoted and is_new:
        letter = byte_at(text, at + 1)
        is_letter = 48 <= letter <= 57 or 97 <= (letter | 32) <= 122 or letter == 95
        if is_letter and byte_at(text, at + 2) == 34:
            state[_SEEN] |= 1 << field
            return letter == 88
    elif field == CATEGORY and is_quoted and is_new:
        state[_SEEN] |= 1 << field
        state[field] = known_at(text, at + 1, opened, known[1])
        return state[field] != OTHER
    elif field == FORWARD and 49 <= byte_at(text, at) <= 57:
        state[_SEEN] |= 1 << field
    elif TID <= field <= NUMBER and is_new:
        take_number(text, at, field, state)
    return True


def take_number(text: Text, place: int, field: int, state: Int64s) -> None:
    """Keep a number, of times in ns; those that fit no column are marked as absurd."""
    is_negative, is_time = False, field in (TS, DUR)
    if field < LINK:
        place += np.int64(byte_at(text, place) == 34)
        is_negative = byte_at(text, place) == 45
        place += np.int64(is_negative)
    first, value = place, np.int64(0)
    while 48 <= byte_at(text, place) <= 57 and place - first <= _DIGITS:
        value = value * 10 + (byte_at(text, place) - 48)
        place += 1
    if place == first or place - first > (_TIME_DIGITS if is_time else _DIGITS):
        return
    if is_time:
        is_absurd, value, unit = value > _MOST_US, value * 1000, np.int64(100)
        if byte_at(text, place) == 46:
            while unit > 0 and 48 <= byte_at(text, place + 1) <= 57:
                place += 1
                value += unit * (byte_at(text, place) - 48)
                unit //= 10
        if is_absurd or value >= (_LATEST_NS if field == TS else _LONGEST_NS):
            state[_SEEN] |= 1 << _ABSURD
    state[field] = -value if is_negative else value
    state[_SEEN] |= 1 << field


def add_event(rows: Int64s, state: Int64s, opened: int, end: int) -> None:
    """Add the rows of an event of phase X whose category counts."""
    seen, category, beginning = state[_SEEN], state[CATEGORY], state[_BEGINNING]
    begun, ended = state[TS], state[TS] + state[DUR]
    link = state[LINK] if (seen >> LINK) & 1 != 0 else np.int64(-1)
    number = state[NUMBER] if (seen >> NUMBER) & 1 != 0 else np.int64(-1)
    has_times = (seen >> TS) & 3 == 3 and (seen >> _ABSURD) & 1 == 0
    if (
        category == OF_ANNOTATION
        or (category == OF_OPERATOR and beginning & READ_OPERATOR != 0)
        or (category == OF_KERNEL and beginning & OF_NCCL != 0)
    ):
        add(rows, state, TO_READ, opened, end, 0)
    elif not has_times:
        return
    elif category in (OF_KERNEL, OF_COPY):
        add(rows, state, COMPUTE, begun, ended, link)
    elif category == OF_OPERATOR and beginning & OF_AUTOGRAD != 0:
        add(rows, state, AUTOGRAD, begun, ended, number)
    elif category == OF_OPERATOR and number >= 0 and (seen >> FORWARD) & 1 == 0:
        add(rows, state, OPERATOR, begun, ended, number)
    elif category == OF_RUNTIME:
        if link >= 0:
            add(rows, state, RUNTIME, link, begun, 0)
        if beginning & READ_RUNTIME != 0:
            add(rows, state, TO_READ, opened, end, 0)


def add(rows: Int64s, state: Int64s, kind: int, start: int, end: int, value: int) -> None:
    """Add a row."""
    room = len(rows) // (NUM_KINDS * ROW_WIDTH)
    place = np.uint64(kind * ROW_WIDTH * room + state[NUM_ROWS + kind])
    rows[place] = start
    rows[place + np.uint64(room)] = end
    rows[place + np.uint64(2 * room)] = value
    rows[place + np.uint64(3 * room)] = state[TID] if (state[_SEEN] >> TID) & 1 != 0 else -1
    state[NUM_ROWS + kind] += 1
    state[IS_STOPPED] |= np.int64(state[NUM_ROWS + kind] == room)
