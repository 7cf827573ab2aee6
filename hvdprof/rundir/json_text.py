"""JSON of files and processes that may be damaged or hostile: one error for all that is wrong."""

import json
from typing import Any

LARGEST_INTEGER = 2**63 - 1
"""What fits into a column of a table."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is no JSON, is nested too deeply, or holds a whole number beyond 64 bits.
    """
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _integer(digits: str) -> int:
    number = int(digits)
    if abs(number) > LARGEST_INTEGER:
        raise ValueError("a whole number has more than 64 bits")
    return number
