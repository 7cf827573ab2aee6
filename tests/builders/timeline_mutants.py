"""Damaged timelines: a recording with a few places changed as disks, copies and writers do it."""

import random

_TOKENS = (
    b'{"ph": "B", "name": "', b'{"ph": "', b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0",
    b"\xff\xfe", b"\n", b"\r\n", b"0", b"-1", b"1e9", b".5", b"null", b"NaN", b'"args": ',
    b'"pid": ', b"\xc3", b"[{",
    b'{"name": "process_name", "ph": "M", "pid": 7, "args": {"name": "quo"te"}},\n',
    b'{"ph": "E", "ts": 5, "pid": 1}', b'"traceEvents": [', b'"\\u00e9"', b"9" * 25, b"\\ud800",
)  # fmt: skip


def mutant(numbers: random.Random, seed: bytes) -> bytes:
    """A seed with one to six changes."""
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
