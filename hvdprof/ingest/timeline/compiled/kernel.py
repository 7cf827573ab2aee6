"""The compiled parser of a timeline file's text: records as Horovod writes them.

It takes B, E, X and i records whose fields are plain (no escapes, no exponents, no unknown keys)
and whose pid, name and args are known already. At anything else it stops in front of the record,
which then goes the way of ``reader``. So it can be fast without being tolerant, and the other way
is tolerant without being fast.

What it does depends on the text from its start on and on what is known, on nothing else: so a part
that was parsed ahead is what would have been parsed, if parsing of the part before ended right at
its start and nothing was learned in between.
"""

import numpy as np

from hvdprof.ingest.timeline.compiled.kernel_pairs import KIND_BEGIN, KIND_END, KIND_MARK, KIND_TICK
from hvdprof.ingest.timeline.compiled.kernel_spans import (
    BRACES,
    QUOTES,
    Spans,
    byte_at,
    digits,
    find_span,
    known,
    word_at,
)
from hvdprof.model.arrays import Int32s, Int64s, Text


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
_KIND, _NAME_AT, _NAME_LENGTH, _TIME, _NUMBER, _ARGS_AT, _ARGS_LENGTH = range(7)
_NAME_HASH, _ARGS_HASH, NUM_RECORDS, FOUND_WIDTH = range(7, 11)


def parse(
    text: Text,
    place: int,
    end: int,
    names: Spans,
    args: Spans,
    codes: Int32s,
    found: Int64s,
    records: tuple[Int64s, Int32s],
) -> int:
    """Write down records from ``place`` on, as long as there is room for them.

    Args:
        text: The text as bytes and as words; behind it are at least 64 bytes that may be read.
        place: Where to start in the text.
        end: Where the text ends.
        names: Known names.
        args: Known args.
        codes: The code by number of a pid, -1 where it is new.
        found: Room for the fields of a record, and in ``NUM_RECORDS`` for how many there were.
        records: Their memory as 64 and as 32 bits.

    Returns:
        The place of what was not taken; it is ``end`` only if the last record, or a separator
        behind it, ended right there.
    """
    times, halves = records
    number, room = 0, len(times) // 2
    while True:
        while place < end and is_separator(byte_at(text, place)):
            place += 1
        found[NUM_RECORDS] = number
        if place >= end or byte_at(text, place) != 123 or number >= room:
            return place
        after = template(text, place, end, found)
        if after <= 0:
            after = any_spacing(text, place, end, found)
        if after <= 0 or after > end:
            return place
        kind, pid = found[_KIND], found[_NUMBER]
        pid = np.int64(codes[np.uint64(pid)]) if 0 <= pid < len(codes) else np.int64(-1)
        if pid < 0 and kind != _I:
            return place
        short, code = code_of(text, names, args, found)
        if short < 0:
            return place
        times[np.uint64(2 * number)] = found[_TIME]
        halves[np.uint64(4 * number + 2)] = (pid << 2) | short
        halves[np.uint64(4 * number + 3)] = code
        number += 1
        place = after


def code_of(text: Text, names: Spans, args: Spans, found: Int64s) -> tuple[int, int]:
    """The kind of a record, -1 where it is not plain, and its code (see ``kernel_pairs``)."""
    kind, name_at, args_at = found[_KIND], found[_NAME_AT], found[_ARGS_AT]
    if kind == _E:
        code = np.int64(-1)
        if args_at >= 0:
            code = known(args, text, args_at, found[_ARGS_LENGTH], np.uint64(found[_ARGS_HASH]))
        return KIND_END if code >= 0 or args_at < 0 else -1, code
    if name_at < 0 or args_at >= 0:
        return -1, np.int64(-1)
    if kind == _X:
        code = rank_in(text, name_at, found[_NAME_LENGTH])
        return KIND_TICK if code >= 0 else -1, code
    code = known(names, text, name_at, found[_NAME_LENGTH], np.uint64(found[_NAME_HASH]))
    if code < 0 or (kind != _B and kind != _I):
        return -1, code
    return KIND_BEGIN if kind == _B else KIND_MARK, code


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


def template(text: Text, start: int, end: int, found: Int64s) -> int:
    """A record in the spacing of Horovod and of ``json.dumps``: the place after it, or -1."""
    if word_at(text, start) != _PH:
        return -1
    kind = np.int64(byte_at(text, start + 8))
    place = start + 9
    found[_KIND] = kind
    found[_NUMBER] = -1
    found[_NAME_AT] = -1
    found[_ARGS_AT] = -1
    if kind != _E:
        if word_at(text, place) != _NAME or word_at(text, place + 8) & _LOW_HALF != _COLON_QUOTE:
            return -1
        name_at = place + 12
        place, hashed = find_span(text, name_at, end, QUOTES)
        found[_NAME_HASH] = np.int64(hashed)
        if place < 0:
            return -1
        found[_NAME_AT] = name_at
        found[_NAME_LENGTH] = place - name_at
    if word_at(text, place) != _TS or byte_at(text, place + 8) != 32:
        return -1
    value, place = digits(text, place + 9, _LONGEST_TIME)
    found[_TIME] = value
    if place < 0:
        return -1
    if kind == _I:
        if (
            word_at(text, place) == _SCOPE
            and byte_at(text, place + 9) == 34
            and byte_at(text, place + 10) == 125
        ):
            return place + 11
        return -1
    if word_at(text, place) != _PID or byte_at(text, place + 8) != 32:
        return -1
    value, place = digits(text, place + 9, _LONGEST_PID)
    found[_NUMBER] = value
    if place < 0:
        return -1
    if byte_at(text, place) == 125:
        return place + 1
    return template_rest(text, place, end, found)


def template_rest(text: Text, place: int, end: int, found: Int64s) -> int:
    """The length of a tick or the args of an end, which come last: the place after, or -1."""
    if found[_KIND] == _X:
        is_zero = (
            byte_at(text, place + 8) == 32
            and byte_at(text, place + 9) == 48
            and byte_at(text, place + 10) == 125
        )
        return place + 11 if word_at(text, place) == _DUR and is_zero else -1
    if found[_KIND] != _E or word_at(text, place) != _ARGS:
        return -1
    if byte_at(text, place + 8) != 58 or byte_at(text, place + 9) != 32:
        return -1
    args_at = place + 10
    place, hashed = find_span(text, args_at, end, BRACES)
    found[_ARGS_HASH] = np.int64(hashed)
    if place < 0 or byte_at(text, place + 1) != 125:
        return -1
    found[_ARGS_AT] = args_at
    found[_ARGS_LENGTH] = place - args_at
    return place + 2


def any_spacing(text: Text, start: int, end: int, found: Int64s) -> int:
    """A record with plain fields in any order and spacing: the place after it, or -1."""
    found[_KIND] = 0
    found[_NUMBER] = -1
    found[_NAME_AT] = -1
    found[_ARGS_AT] = -1
    found[_TIME] = -1
    place = start + 1
    seen = 0
    while True:
        place = skip_blanks(text, place)
        if byte_at(text, place) != 34:
            return -1
        key, width = short_key(word_at(text, place + 1))
        if width == 0:
            return -1
        place = skip_blanks(text, place + width + 2)
        if byte_at(text, place) != 58:
            return -1
        bit, place = field(text, skip_blanks(text, place + 1), end, key, found)
        if place < 0 or seen & bit != 0:
            return -1
        seen |= bit
        place = skip_blanks(text, place)
        if byte_at(text, place) == 125:
            return place + 1 if seen & 3 == 3 else -1
        if byte_at(text, place) != 44 or place >= end:
            return -1
        place += 1


def short_key(word: int) -> tuple[int, int]:
    """A key of at most four bytes with its quote, and its length; 0 for any other."""
    for width in range(1, 5):
        if (word >> np.uint64(8 * width)) & np.uint64(0xFF) == np.uint64(34):
            return word & ((np.uint64(1) << np.uint64(8 * width + 8)) - np.uint64(1)), width
    return np.uint64(0), 0


def field(text: Text, place: int, end: int, key: int, found: Int64s) -> tuple[int, int]:
    """One field: its bit (``ph`` 1, ``ts`` 2, ...) and the place after its value, or -1."""
    if key == _KEY_TS:
        value, place = floored(text, place)
        found[_TIME] = value
        return 2, place
    if key == _KEY_PID:
        value, place = digits(text, place, _LONGEST_PID)
        found[_NUMBER] = value
        return 4, place if ends_a_number(byte_at(text, place)) else -1
    if key == _KEY_DUR:
        return 8, place + 1 if byte_at(text, place) == 48 and ends_a_number(
            byte_at(text, place + 1)
        ) else -1
    if key == _KEY_ARGS:
        after, hashed = find_span(text, place, end, BRACES)
        found[_ARGS_HASH] = np.int64(hashed)
        if byte_at(text, place) != 123 or after < 0:
            return 16, -1
        found[_ARGS_AT] = place
        found[_ARGS_LENGTH] = after - place
        return 16, after + 1
    if byte_at(text, place) != 34:
        return 0, -1
    after, hashed = find_span(text, place + 1, end, QUOTES)
    if after < 0:
        return 0, -1
    if key == _KEY_NAME:
        found[_NAME_AT] = place + 1
        found[_NAME_LENGTH] = after - place - 1
        found[_NAME_HASH] = np.int64(hashed)
        return 32, after + 1
    if key == _KEY_PH and after == place + 2:
        found[_KIND] = byte_at(text, place + 1)
        return 1, after + 1
    return 64, after + 1 if key == _KEY_S else -1


def floored(text: Text, start: int) -> tuple[int, int]:
    """A number without sign and exponent, floored, and the place after it; -1 for any other."""
    value, place = digits(text, start, _LONGEST_TIME)
    if place < 0:
        return 0, -1
    if byte_at(text, place) == 46:
        point = place
        place += 1
        while 48 <= byte_at(text, place) <= 57:
            place += 1
        # More digits than a float holds may be rounded up by a JSON decoder.
        if place == point + 1 or place - start - 1 > _LONGEST_EXACT:
            return 0, -1
    return value, place if ends_a_number(byte_at(text, place)) else -1


def ends_a_number(byte: int) -> bool:
    """Whether a number may be followed by the byte."""
    return byte == 44 or byte == 125 or byte == 32 or byte == 10 or byte == 13 or byte == 9


def skip_blanks(text: Text, place: int) -> int:
    """The next place that holds no blank; the bytes behind the text are none."""
    while (
        byte_at(text, place) == 32
        or byte_at(text, place) == 10
        or byte_at(text, place) == 13
        or byte_at(text, place) == 9
    ):
        place += 1
    return place


def rank_in(text: Text, place: int, width: int) -> int:
    """The number that a name is; -1 where it is none, or a longer one."""
    if width < 1 or width > 8:
        return -1
    word = word_at(text, place)
    value = np.int64(0)
    for _ in range(width):
        digit = np.int64(word & np.uint64(0xFF)) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        word = word >> np.uint64(8)
    return value
