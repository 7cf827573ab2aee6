"""Damaged files: a few places changed as disks, copies, writers and attackers do."""

import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

_TOKENS = (
    b'{"ph": "B", "name": "', b'{"ph": "', b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0",
    b"\xff\xfe", b"\n", b"\r\n", b"0", b"-1", b"1e9", b".5", b"null", b"NaN", b'"args": ',
    b'"pid": ', b"\xc3", b"[{",
    b'{"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "quo"te"}},\n',
    b'{"ph": "E", "ts": 5, "pid": 1}', b'"traceEvents": [', b'"\\u00e9"', b"9" * 25, b"\\ud800",
)  # fmt: skip
_ODD_NUMBERS = (
    b"0", b"-1", b"1", b"2147483648", b"9223372036854775807", b"9223372036854775808",
    b"-" + b"9" * 19, b"18446744073709551616", b"9" * 400, b"9" * 5000, b"1e999", b"-1e999",
    b"1e300", b"1e-320", b"NaN", b"Infinity", b"0.5", b"1e18", b"007", b"4611686018427387904",
    b"99999999999", b"123456789012345678",
)  # fmt: skip
_ODD_VALUES = (
    b"null", b"true", b"[]", b"{}", b'""', b'"x"', b'"\\ud800"', b'"\\u0000"', b"[[[]]]",
    b'{"a": 1}', b'"' + b"x" * 3000 + b'"', b"[" * 2000, b"1e999", b"-1", b"9" * 25,
    b"[null, 1]", b'["a", -1]',
)  # fmt: skip
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_VALUE = re.compile(rb':\s*("(?:[^"\\\n]|\\.)*"|-?[\d.eE+-]+|null|true|false|\[\]|\{\})')
_KEY = re.compile(rb'"[^"\\\n]*"\s*:')
_ODD_CELLS = (
    None, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 1e308, -1e308, "", "x", "x" * 5000, b"",
    b"\xff\xfe\0", "-1", "9" * 30, 0.5,
)  # fmt: skip
_SQLITE = b"SQLite format 3"


def mutant(numbers: random.Random, seed: bytes) -> bytes:
    """A seed with one to six changes of its bytes."""
    content = bytearray(seed)
    for _ in range(numbers.randint(1, 6)):
        place = numbers.randint(0, len(content))
        width = numbers.choice((1, 1, 2, 5, 40, 400))
        kind = numbers.randrange(7)
        if kind == 0:
            del content[place : place + width]
        elif kind == 1:
            content[place:place] = content[place : place + width]
        elif kind == 2:
            content[place : place + width] = numbers.randbytes(width)
        elif kind == 3:
            content[place:place] = numbers.choice(_TOKENS)
        elif kind == 4:
            content[place : place + width] = bytes(width)
        elif kind == 5:
            moved = content[place : place + width]
            del content[place : place + width]
            target = numbers.randint(0, len(content))
            content[target:target] = moved
        else:
            del content[place:]
    return bytes(content)


def damage(numbers: random.Random, path: Path) -> None:
    """Change a file in place: its bytes, its lines, or its values, which then are still parsed."""
    content = path.read_bytes()
    if content.startswith(_SQLITE) and numbers.random() < 0.6:
        # What SQLite itself refuses tests nothing: the changes before it stay.
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database:
            for _ in range(numbers.randint(1, 4)):
                numbers.choice((_odd_cell, _odd_cell, _odd_text, _odd_schema))(numbers, database)
                database.commit()
        return
    change = numbers.choice((mutant, _odd_numbers, _odd_values, _odd_keys, _odd_lines))
    path.write_bytes(change(numbers, content))


def _replaced(
    numbers: random.Random, content: bytes, pattern: re.Pattern[bytes], new: Callable[[], bytes]
) -> bytes:
    """Some places that a pattern finds, replaced; its first group alone where it has one."""
    found = list(pattern.finditer(content))
    if not found:
        return mutant(numbers, content)
    # Neighbours often belong together: a whole line of a table, a whole record.
    first = numbers.randrange(len(found))
    chosen = found[first : first + numbers.choice((1, 1, 2, 4))]
    chosen += numbers.sample(found, min(len(found), numbers.choice((0, 0, 1, 3, 20))))
    places = {one.span(pattern.groups) for one in chosen}
    for begin, end in sorted(places, reverse=True):
        content = content[:begin] + new() + content[end:]
    return content


def _odd_numbers(numbers: random.Random, content: bytes) -> bytes:
    same = numbers.choice(_ODD_NUMBERS)
    one = numbers.random() < 0.5
    return _replaced(
        numbers, content, _NUMBER, lambda: same if one else numbers.choice(_ODD_NUMBERS)
    )


def _odd_values(numbers: random.Random, content: bytes) -> bytes:
    return _replaced(numbers, content, _VALUE, lambda: numbers.choice(_ODD_VALUES))


def _odd_keys(numbers: random.Random, content: bytes) -> bytes:
    return _replaced(numbers, content, _KEY, lambda: b'"other":')


def _odd_lines(numbers: random.Random, content: bytes) -> bytes:
    """Lines repeated, dropped, swapped, glued, or cut."""
    lines = content.splitlines(keepends=True) or [b""]
    for _ in range(numbers.randint(1, 8)):
        place, other = numbers.randrange(len(lines)), numbers.randrange(len(lines))
        kind = numbers.randrange(5)
        if kind == 0:
            lines[place:place] = [lines[other]] * numbers.choice((1, 2, 50))
        elif kind == 1 and len(lines) > 1:
            del lines[place]
        elif kind == 2:
            lines[place], lines[other] = lines[other], lines[place]
        elif kind == 3:
            lines[place] = lines[place].rstrip(b"\r\n")
        else:
            lines[place] = lines[place][: numbers.randrange(len(lines[place]) + 1)] + b"\n"
    return b"".join(lines)


def _table(numbers: random.Random, database: sqlite3.Connection) -> tuple[str, list[str]]:
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    name = numbers.choice(names)[0]
    return name, [row[1] for row in database.execute(f"PRAGMA table_info({name})")]


def _odd_cell(numbers: random.Random, database: sqlite3.Connection) -> None:
    name, columns = _table(numbers, database)
    column = numbers.choice(columns)
    where = "" if numbers.random() < 0.1 else f"WHERE rowid % 7 = {numbers.randrange(7)}"
    database.execute(f"UPDATE {name} SET {column} = ? {where}", [numbers.choice(_ODD_CELLS)])


def _odd_text(numbers: random.Random, database: sqlite3.Connection) -> None:
    """A text that is not UTF-8: SQLite keeps it as it is."""
    name, columns = _table(numbers, database)
    column = numbers.choice(columns)
    database.execute(f"UPDATE {name} SET {column} = CAST(x'ff80c3' AS TEXT) WHERE rowid % 3 = 1")


def _odd_schema(numbers: random.Random, database: sqlite3.Connection) -> None:
    name, columns = _table(numbers, database)
    column = numbers.choice(columns)
    database.execute(
        numbers.choice(
            (
                f"ALTER TABLE {name} RENAME COLUMN {column} TO other",
                f"ALTER TABLE {name} DROP COLUMN {column}",
                f"ALTER TABLE {name} RENAME TO other",
                f"INSERT INTO {name} SELECT * FROM {name}",
                f"DELETE FROM {name} WHERE rowid % 2 = 0",
                f'ALTER TABLE {name} ADD COLUMN "{chr(0xE9)}" TEXT',
            )
        )
    )
    if numbers.random() < 0.3:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_master SET sql = CAST(replace(sql, ?, x'ff') AS TEXT) WHERE name = ?",
            [column[:1], name],
        )
