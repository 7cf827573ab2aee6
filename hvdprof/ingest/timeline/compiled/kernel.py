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

from hvdprof.ingest.timeline.column_loops import compiled
from hvdprof.ingest.timeline.compiled.kernel_memory import (
    byte_at,
    int_at,
    long_at,
    put_int,
    put_long,
    word_at,
)
from hvdprof.ingest.timeline.compiled.kernel_pairs import (
    CODE,
    KIND_BEGIN,
    KIND_END,
    KIND_MARK,
    KIND_TICK,
    PID_AND_KIND,
    RECORD_BYTES,
    TIME,
)
from hvdprof.ingest.timeline.compiled.kernel_spans import (
    BRACES,
    QUOTES,
    digits,
    find_span,
    known,
)

TEXT, END, NAMES, NAME_SLOTS, ARG_STRINGS, ARG_SLOTS, CODES, NUM_CODES = range(8)
FOUND, RECORDS, MOST_RECORDS, NUM_RECORDS, PLACES_WIDTH = range(8, 13)
"""Places in the array of what ``parse`` works on: addresses, and how many there are of each.

``TEXT`` is followed by at least 64 bytes that may be read. ``CODES`` is the code by number of a
pid, ``FOUND`` is room for the fields of a record, and ``NUM_RECORDS`` is what ``parse`` says.
"""


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
_NAME_HASH, _ARGS_HASH, FOUND_WIDTH = range(7, 10)


@compiled
def parse(places: int, place: int) -> int:
    """Write down records from ``place`` on, as long as there is room for them.

    Args:
        places: Address of the array of places.
        place: Where to start in the text.

    Returns:
        The place of what was not taken; it is ``END`` only if the last record, or a separator
        behind it, ended right there.
    """
    data, end = long_at(places + 8 * TEXT), long_at(places + 8 * END)
    names, name_slots = long_at(places + 8 * NAMES), long_at(places + 8 * NAME_SLOTS)
    args, args_slots = long_at(places + 8 * ARG_STRINGS), long_at(places + 8 * ARG_SLOTS)
    codes, num_codes = long_at(places + 8 * CODES), long_at(places + 8 * NUM_CODES)
    found = long_at(places + 8 * FOUND)
    record = long_at(places + 8 * RECORDS)
    first, last = record, record + RECORD_BYTES * long_at(places + 8 * MOST_RECORDS)
    while True:
        while place < end and is_separator(byte_at(data + place)):
            place += 1
        put_long(places + 8 * NUM_RECORDS, (record - first) // RECORD_BYTES)
        if place >= end or byte_at(data + place) != 123 or record >= last:
            return place
        after = template(data, place, end, found)
        if after <= 0:
            after = any_spacing(data, place, end, found)
        if after <= 0 or after > end:
            return place
        kind = long_at(found + 8 * _KIND)
        name_at, args_at = long_at(found + 8 * _NAME_AT), long_at(found + 8 * _ARGS_AT)
        pid = code_of(codes, num_codes, long_at(found + 8 * _NUMBER))
        if pid < 0 and kind != _I:
            return place
        code = np.int64(-1)
        if kind == _E:
            short = KIND_END
            if args_at >= 0:
                length, hashed = long_at(found + 8 * _ARGS_LENGTH), word_at(found + 8 * _ARGS_HASH)
                code = known(args, args_slots, data, args_at, length, hashed)
                if code < 0:
                    return place
        elif name_at < 0 or args_at >= 0:
            return place
        elif kind == _X:
            short = KIND_TICK
            code = rank_in(data, name_at, long_at(found + 8 * _NAME_LENGTH))
            if code < 0:
                return place
        else:
            length, hashed = long_at(found + 8 * _NAME_LENGTH), word_at(found + 8 * _NAME_HASH)
            code = known(names, name_slots, data, name_at, length, hashed)
            if code < 0 or (kind != _B and kind != _I):
                return place
            short = KIND_BEGIN if kind == _B else KIND_MARK
        put_long(record + TIME, long_at(found + 8 * _TIME))
        put_int(record + PID_AND_KIND, (pid << 2) | short)
        put_int(record + CODE, code)
        record += RECORD_BYTES
        place = after


@compiled
def code_of(codes: int, num_codes: int, number: int) -> int:
    """The code of a pid, -1 where it is new."""
    if number < 0 or number >= num_codes:
        return -1
    return int_at(codes + 4 * number)


@compiled
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


@compiled
def template(data: int, start: int, end: int, found: int) -> int:
    """A record in the spacing of Horovod and of ``json.dumps``: the place after it, or -1."""
    if word_at(data + start) != _PH:
        return -1
    kind = np.int64(byte_at(data + start + 8))
    place = start + 9
    put_long(found + 8 * _KIND, kind)
    put_long(found + 8 * _NUMBER, -1)
    put_long(found + 8 * _NAME_AT, -1)
    put_long(found + 8 * _ARGS_AT, -1)
    if kind != _E:
        if word_at(data + place) != _NAME or word_at(data + place + 8) & _LOW_HALF != _COLON_QUOTE:
            return -1
        name_at = place + 12
        place, hashed = find_span(data, name_at, end, QUOTES)
        put_long(found + 8 * _NAME_HASH, np.int64(hashed))
        if place < 0:
            return -1
        put_long(found + 8 * _NAME_AT, name_at)
        put_long(found + 8 * _NAME_LENGTH, place - name_at)
    if word_at(data + place) != _TS or byte_at(data + place + 8) != 32:
        return -1
    value, place = digits(data, place + 9, _LONGEST_TIME)
    put_long(found + 8 * _TIME, value)
    if place < 0:
        return -1
    if kind == _I:
        if (
            word_at(data + place) == _SCOPE
            and byte_at(data + place + 9) == 34
            and byte_at(data + place + 10) == 125
        ):
            return place + 11
        return -1
    if word_at(data + place) != _PID or byte_at(data + place + 8) != 32:
        return -1
    value, place = digits(data, place + 9, _LONGEST_PID)
    put_long(found + 8 * _NUMBER, value)
    if place < 0:
        return -1
    if byte_at(data + place) == 125:
        return place + 1
    return template_rest(data, place, end, found)


@compiled
def template_rest(data: int, place: int, end: int, found: int) -> int:
    """The length of a tick or the args of an end, which come last: the place after, or -1."""
    if long_at(found + 8 * _KIND) == _X:
        is_zero = (
            byte_at(data + place + 8) == 32
            and byte_at(data + place + 9) == 48
            and byte_at(data + place + 10) == 125
        )
        return place + 11 if word_at(data + place) == _DUR and is_zero else -1
    if long_at(found + 8 * _KIND) != _E or word_at(data + place) != _ARGS:
        return -1
    if byte_at(data + place + 8) != 58 or byte_at(data + place + 9) != 32:
        return -1
    args_at = place + 10
    place, hashed = find_span(data, args_at, end, BRACES)
    put_long(found + 8 * _ARGS_HASH, np.int64(hashed))
    if place < 0 or byte_at(data + place + 1) != 125:
        return -1
    put_long(found + 8 * _ARGS_AT, args_at)
    put_long(found + 8 * _ARGS_LENGTH, place - args_at)
    return place + 2


@compiled
def any_spacing(data: int, start: int, end: int, found: int) -> int:
    """A record with plain fields in any order and spacing: the place after it, or -1."""
    put_long(found + 8 * _KIND, 0)
    put_long(found + 8 * _NUMBER, -1)
    put_long(found + 8 * _NAME_AT, -1)
    put_long(found + 8 * _ARGS_AT, -1)
    put_long(found + 8 * _TIME, -1)
    place = start + 1
    seen = 0
    while True:
        place = skip_blanks(data, place)
        if byte_at(data + place) != 34:
            return -1
        key, width = short_key(word_at(data + place + 1))
        if width == 0:
            return -1
        place = skip_blanks(data, place + width + 2)
        if byte_at(data + place) != 58:
            return -1
        bit, place = field(data, skip_blanks(data, place + 1), end, key, found)
        if place < 0 or seen & bit != 0:
            return -1
        seen |= bit
        place = skip_blanks(data, place)
        if byte_at(data + place) == 125:
            return place + 1 if seen & 3 == 3 else -1
        if byte_at(data + place) != 44 or place >= end:
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
    data: int,
    place: int,
    end: int,
    key: int,
    found: int,
) -> tuple[int, int]:
    """One field: its bit (``ph`` 1, ``ts`` 2, ...) and the place after its value, or -1."""
    if key == _KEY_TS:
        value, place = floored(data, place)
        put_long(found + 8 * _TIME, value)
        return 2, place
    if key == _KEY_PID:
        value, place = digits(data, place, _LONGEST_PID)
        put_long(found + 8 * _NUMBER, value)
        return 4, place if ends_a_number(byte_at(data + place)) else -1
    if key == _KEY_DUR:
        return 8, place + 1 if byte_at(data + place) == 48 and ends_a_number(
            byte_at(data + place + 1)
        ) else -1
    if key == _KEY_ARGS:
        after, hashed = find_span(data, place, end, BRACES)
        put_long(found + 8 * _ARGS_HASH, np.int64(hashed))
        if byte_at(data + place) != 123 or after < 0:
            return 16, -1
        put_long(found + 8 * _ARGS_AT, place)
        put_long(found + 8 * _ARGS_LENGTH, after - place)
        return 16, after + 1
    if byte_at(data + place) != 34:
        return 0, -1
    after, hashed = find_span(data, place + 1, end, QUOTES)
    if after < 0:
        return 0, -1
    if key == _KEY_NAME:
        put_long(found + 8 * _NAME_AT, place + 1)
        put_long(found + 8 * _NAME_LENGTH, after - place - 1)
        put_long(found + 8 * _NAME_HASH, np.int64(hashed))
        return 32, after + 1
    if key == _KEY_PH and after == place + 2:
        put_long(found + 8 * _KIND, byte_at(data + place + 1))
        return 1, after + 1
    return 64, after + 1 if key == _KEY_S else -1


@compiled
def floored(data: int, start: int) -> tuple[int, int]:
    """A number without sign and exponent, floored, and the place after it; -1 for any other."""
    value, place = digits(data, start, _LONGEST_TIME)
    if place < 0:
        return 0, -1
    if byte_at(data + place) == 46:
        point = place
        place += 1
        while 48 <= byte_at(data + place) <= 57:
            place += 1
        # More digits than a float holds may be rounded up by a JSON decoder.
        if place == point + 1 or place - start - 1 > _LONGEST_EXACT:
            return 0, -1
    return value, place if ends_a_number(byte_at(data + place)) else -1


@compiled
def ends_a_number(byte: int) -> bool:
    """Whether a number may be followed by the byte."""
    return byte == 44 or byte == 125 or byte == 32 or byte == 10 or byte == 13 or byte == 9


@compiled
def skip_blanks(data: int, place: int) -> int:
    """The next place that holds no blank; the bytes behind the text are none."""
    while (
        byte_at(data + place) == 32
        or byte_at(data + place) == 10
        or byte_at(data + place) == 13
        or byte_at(data + place) == 9
    ):
        place += 1
    return place


@compiled
def rank_in(data: int, place: int, width: int) -> int:
    """The number that a name is; -1 where it is none, or a longer one."""
    if width < 1 or width > 8:
        return -1
    word = word_at(data + place)
    value = np.int64(0)
    for _ in range(width):
        digit = np.int64(word & np.uint64(0xFF)) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
        word = word >> np.uint64(8)
    return value
