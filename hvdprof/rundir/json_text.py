"""JSON of files and processes that may be damaged or hostile: one error for all that is wrong."""

import json
import math
from collections.abc import Callable
from typing import Any

LARGEST_INTEGER = 2**63 - 1
"""What fits into a column of a table."""

DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)
"""What using a value of another form than expected raises."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; half of a surrogate pair, which no column can hold, is replaced.

    Raises:
        ValueError: It is no JSON or no UTF-8, is nested too deeply, or holds a number beyond 64
            bits; NaN is none of these.
    """
    text = text if isinstance(text, str) else text.decode("utf-8")
    return _parsed(_DECODER.decode, text)


def parse_first(text: bytes) -> Any:
    """The value with which a text begins; bytes that are no UTF-8 are replaced.

    Raises:
        ValueError: As ``parse_json``.
    """
    return _parsed(_DECODER.raw_decode, text.decode("utf-8", "replace"))[0]


def _parsed(decode: Callable[[str], object], text: str) -> Any:
    try:
        value = decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return without_surrogates(value) if "\\u" in text else value


def without_surrogates(value: object) -> Any:
    """A value of JSON in which no text holds half of a surrogate pair."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _integer(digits: str) -> int:
    # Python refuses to convert thousands of digits, in words of its own.
    number = int(digits[:40])
    if abs(number) > LARGEST_INTEGER:
        raise ValueError("a whole number has more than 64 bits")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number has more than 64 bits")
    return number


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_finite, parse_constant=_finite)
