"""The compiled scan over a timeline file's text: records as Horovod writes them, paired at once.

It takes B, E, X and i records whose fields are plain (no escapes, no exponents, no unknown keys)
and whose pid, name and args are known already. At anything else it stops in front of the record,
which then goes the way of ``reader``. So it can be fast without being tolerant, and the other way
is tolerant without being fast.
"""

from typing import NamedTuple

import numpy as np

from hvdprof.ingest.timeline.kernel_pairs import (
    MARKS,
    ROWS,
    TICKS,
    begin,
    end_,
    mark,
    tick,
)
from hvdprof.ingest.timeline.kernel_spans import (
    BRACES,
    QUOTES,
    Spans,
    Uint8s,
    Uint64s,
    compiled,
    digits,
    find_span,
    inlined,
    known,
)
from hvdprof.ingest.timeline.raw import Int32s, Int64s


class Known(NamedTuple):
    """What strings and pids mean; ``clears`` says by code of a name whether it clears the stack."""

    names: Spans
    args: Spans
    codes: Int32s
    clears: Uint8s


class Columns(NamedTuple):
    """Where records go; ``top`` is the innermost open row by code of the pid, -1 for none."""

    wide: Int64s
    narrow: Int32s
    ticks: Int64s
    marks: Int64s
    top: Int32s
    state: Int64s


def _word(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(text.encode(), "little"))


_PH, _NAME, _COLON_QUOTE = _word('{"ph": "'), _word('", "name'), _word('": "')
_TS, _PID, _DUR = _word('", "ts":'), _word(', "pid":'), _word(', "dur":')
_ARGS, _SCOPE = _word(', "args"'), _word(', "s": "')
_LOW_HALF = np.uint64(0xFFFFFFFF)
_B, _E, _X, _I = ord("B"), ord("E"), ord("X"), ord("i")
_LONGEST_TIME, _LONGEST_PID, _LONGEST_EXACT = 18, 9, 15
# With the quote that ends them: a key may hold a zero byte.
_KEY_PH, _KEY_TS, _KEY_S, _KEY_PID = _word('ph"'), _word('ts"'), _word('s"'), _word('pid"')
_KEY_DUR, _KEY_NAME, _KEY_ARGS = _word('dur"'), _word('name"'), _word('args"')

# Places of the fields of a record that was found: -1 where it has none.
_KIND, _NAME_AT, _NAME_LENGTH, _TIME, _NUMBER, _ARGS_AT, _ARGS_LENGTH, _WIDTH = range(8)


@compiled
def scan(data: Uint8s, words: Uint64s, place: int, end: int, meant: Known, into: Columns) -> int:
    """Take records from ``place`` on, as long as there is room for them.

    Args:
        data: The text, followed by at least 64 zero bytes.
        words: The eight bytes at each place of it.
        place: Where to start.
        end: Length of the text.
        meant: Known strings and pids.
        into: Where the records go.

    Returns:
        The place of what was not taken.
    """
    # Out of the tuples once: what reads an array in a tuple counts references of all of them.
    names, args, codes, clears = meant
    name_slots, name_words, name_entries = names
    args_slots, args_words, args_entries = args
    wide, narrow, ticks, marks, top, state = into
    found = np.empty(_WIDTH, np.int64)
    hashes = np.empty(2, np.uint64)
    while True:
        while place < end and is_separator(data[place]):
            place += 1
        if place >= end or data[place] != 123 or is_full(wide, ticks, marks, state):
            return place
        after = template(data, words, place, end, found, hashes)
        if after <= 0:
            after = any_spacing(data, words, place, end, found, hashes)
        if after <= 0 or after > end:
            return place
        kind, name_at, args_at = found[_KIND], found[_NAME_AT], found[_ARGS_AT]
        pid = code_of(codes, found[_NUMBER])
        if pid < 0 and kind != _I:
            return place
        if kind == _E:
            code = np.int64(-1)
            if args_at >= 0:
                length = found[_ARGS_LENGTH]
                code = known(
                    args_slots, args_words, args_entries, words, args_at, length, hashes[1]
                )
                if code < 0:
                    return place
            end_(wide, narrow, top, state, pid, code, found[_TIME])
        elif name_at < 0 or args_at >= 0:
            return place
        elif kind == _X:
            rank = rank_in(words, name_at, found[_NAME_LENGTH])
            if rank < 0:
                return place
            tick(ticks, state, pid, rank, found[_TIME])
        else:
            length = found[_NAME_LENGTH]
            code = known(name_slots, name_words, name_entries, words, name_at, length, hashes[0])
            if code < 0:
                return place
            if kind == _B:
                begin(wide, narrow, top, state, pid, code, found[_TIME], clears[code] != 0)
            elif kind == _I:
                mark(marks, state, code, found[_TIME])
            else:
                return place
        place = after


@inlined
def is_full(wide: Int64s, ticks: Int64s, marks: Int64s, state: Int64s) -> bool:
    """Whether a record might find no room."""
    return (
        state[ROWS] >= wide.shape[0]
        or state[TICKS] >= ticks.shape[0]
        or state[MARKS] >= marks.shape[0]
    )


@inlined
def code_of(codes: Int32s, number: int) -> int:
    """The code of a pid, -1 where it is new."""
    if number < 0 or number >= len(codes):
        return -1
    return np.int64(codes[number])


@inlined
def is_separator(byte: int) -> bool:
    """Whether the byte may stand between records."""
    return (
        byte == 44
        or byte == 32
        or byte == 10
        or byte == 13
        or byte == 93
        or byte == 91
        or (byte == 9)
    )


@inlined
def template(
    data: Uint8s, words: Uint64s, start: int, end: int, found: Int64s, hashes: Uint64s
) -> int:
    """A record in the spacing of Horovod and of ``json.dumps``: the place after it, or -1."""
    if words[start] != _PH:
        return -1
    kind = np.int64(data[start + 8])
    place = start + 9
    found[_KIND], found[_NUMBER], found[_NAME_AT], found[_ARGS_AT] = kind, -1, -1, -1
    if kind != _E:
        if words[place] != _NAME or words[place + 8] & _LOW_HALF != _COLON_QUOTE:
            return -1
        name_at = place + 12
        place, hashes[0] = find_span(words, name_at, end, QUOTES)
        if place < 0:
            return -1
        found[_NAME_AT], found[_NAME_LENGTH] = name_at, place - name_at
    if words[place] != _TS or data[place + 8] != 32:
        return -1
    found[_TIME], place = digits(data, place + 9, _LONGEST_TIME)
    if place < 0:
        return -1
    if kind == _I:
        if words[place] == _SCOPE and data[place + 9] == 34 and data[place + 10] == 125:
            return place + 11
        return -1
    if words[place] != _PID or data[place + 8] != 32:
        return -1
    found[_NUMBER], place = digits(data, place + 9, _LONGEST_PID)
    if place < 0:
        return -1
    if data[place] == 125:
        return place + 1
    return template_rest(data, words, place, end, found, hashes)


@inlined
def template_rest(
    data: Uint8s, words: Uint64s, place: int, end: int, found: Int64s, hashes: Uint64s
) -> int:
    """The length of a tick or the args of an end, which come last: the place after, or -1."""
    if found[_KIND] == _X:
        is_zero = data[place + 8] == 32 and data[place + 9] == 48 and data[place + 10] == 125
        return place + 11 if words[place] == _DUR and is_zero else -1
    if found[_KIND] != _E or words[place] != _ARGS:
        return -1
    if data[place + 8] != 58 or data[place + 9] != 32:
        return -1
    args_at = place + 10
    place, hashes[1] = find_span(words, args_at, end, BRACES)
    if place < 0 or data[place + 1] != 125:
        return -1
    found[_ARGS_AT], found[_ARGS_LENGTH] = args_at, place - args_at
    return place + 2


@compiled
def any_spacing(
    data: Uint8s, words: Uint64s, start: int, end: int, found: Int64s, hashes: Uint64s
) -> int:
    """A record with plain fields in any order and spacing: the place after it, or -1."""
    found[_KIND], found[_NUMBER], found[_NAME_AT], found[_ARGS_AT], found[_TIME] = 0, -1, -1, -1, -1
    place = start + 1
    seen = 0
    while True:
        place = skip_blanks(data, place)
        if data[place] != 34:
            return -1
        key, width = short_key(words[place + 1])
        if width == 0:
            return -1
        place = skip_blanks(data, place + width + 2)
        if data[place] != 58:
            return -1
        bit, place = field(data, words, skip_blanks(data, place + 1), end, key, found, hashes)
        if place < 0 or seen & bit != 0:
            return -1
        seen |= bit
        place = skip_blanks(data, place)
        if data[place] == 125:
            return place + 1 if seen & 3 == 3 else -1
        if data[place] != 44 or place >= end:
            return -1
        place += 1


@compiled
def short_key(word: int) -> tuple[int, int]:
    """A key of at most four bytes with its quote, and its length; 0 for any other."""
    for width in range(1, 5):
        if (word >> np.uint64(8 * width)) & np.uint64(0xFF) == np.uint64(34):
            return word & ((np.uint64(1) << np.uint64(8 * width + 8)) - np.uint64(1)), width
    return np.uint64(0), 0


@compiled
def field(
    data: Uint8s,
    words: Uint64s,
    place: int,
    end: int,
    key: int,
    found: Int64s,
    hashes: Uint64s,
) -> tuple[int, int]:
    """One field: its bit (``ph`` 1, ``ts`` 2, ...) and the place after its value, or -1."""
    if key == _KEY_TS:
        found[_TIME], place = floored(data, place)
        return 2, place
    if key == _KEY_PID:
        found[_NUMBER], place = digits(data, place, _LONGEST_PID)
        return 4, place if ends_a_number(data[place]) else -1
    if key == _KEY_DUR:
        return 8, place + 1 if data[place] == 48 and ends_a_number(data[place + 1]) else -1
    if key == _KEY_ARGS:
        after, hashes[1] = find_span(words, place, end, BRACES)
        if data[place] != 123 or after < 0:
            return 16, -1
        found[_ARGS_AT], found[_ARGS_LENGTH] = place, after - place
        return 16, after + 1
    if data[place] != 34:
        return 0, -1
    after, hashed = find_span(words, place + 1, end, QUOTES)
    if after < 0:
        return 0, -1
    if key == _KEY_NAME:
        found[_NAME_AT], found[_NAME_LENGTH], hashes[0] = place + 1, after - place - 1, hashed
        return 32, after + 1
    if key == _KEY_PH and after == place + 2:
        found[_KIND] = data[place + 1]
        return 1, after + 1
    return 64, after + 1 if key == _KEY_S else -1


@compiled
def floored(data: Uint8s, start: int) -> tuple[int, int]:
    """A number without sign and exponent, floored, and the place after it; -1 for any other."""
    value, place = digits(data, start, _LONGEST_TIME)
    if place < 0:
        return 0, -1
    if data[place] == 46:
        point = place
        place += 1
        while 48 <= data[place] <= 57:
            place += 1
        # More digits than a float holds may be rounded up by a JSON decoder.
        if place == point + 1 or place - start - 1 > _LONGEST_EXACT:
            return 0, -1
    return value, place if ends_a_number(data[place]) else -1


@compiled
def ends_a_number(byte: int) -> bool:
    """Whether a number may be followed by the byte."""
    return byte == 44 or byte == 125 or byte == 32 or byte == 10 or byte == 13 or byte == 9


@compiled
def skip_blanks(data: Uint8s, place: int) -> int:
    """The next place that holds no blank; the bytes behind the text are none."""
    while data[place] == 32 or data[place] == 10 or data[place] == 13 or data[place] == 9:
        place += 1
    return place


@inlined
def rank_in(words: Uint64s, place: int, width: int) -> int:
    """The number that a name is; -1 where it is none, or a longer one."""
    if width < 1 or width > 8:
        return -1
    word = words[place]
    value = np.int64(0)
    for _ in range(width):
        digit = np.int64(word & np.uint64(0xFF)) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        word = word >> np.uint64(8)
    return value
