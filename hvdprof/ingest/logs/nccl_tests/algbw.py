"""Whether a printed algorithm bandwidth can be that of its size and time.

Tested in ``tests/ingest/logs/test_nccl_tests_output.py``.
"""

import re

_BITS = re.compile(r"(?:int|float)(\d+)$")
_NAMED = {"half": 2, "float": 4, "double": 8, "bfloat16": 2}


def moved_bytes(size_bytes: int, count: int, dtype: str) -> tuple[int, ...]:
    """The bytes that nccl-tests may divide by the time.

    All of the message; in old versions of all_gather and reduce_scatter, without the part of the
    rank itself.
    """
    bits = _BITS.search(dtype)
    part = count * (_NAMED.get(dtype) or (int(bits[1]) // 8 if bits else 1))
    if 0 < part < size_bytes and size_bytes % part == 0:
        return size_bytes, size_bytes - part
    return (size_bytes,)


def is_consistent(size_bytes: int, time_us: str, algbw: str) -> bool:
    """Whether a printed algorithm bandwidth in GB/s is the size divided by the printed time.

    Both are rounded to their last digit.
    """
    time, bandwidth = float(time_us), float(algbw)
    shortest, longest = time - _half_digit(time_us), time + _half_digit(time_us)
    slack = 1.02 * _half_digit(algbw)
    lowest = size_bytes / longest / 1e3
    highest = size_bytes / shortest / 1e3 if shortest > 0 else float("inf")
    return lowest - slack <= bandwidth <= highest + slack


def _half_digit(printed: str) -> float:
    mantissa, _, exponent = printed.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return 0.5 * 10.0**-decimals
