"""How many steps a window of a light recording holds.

Windows end at multiples of a power of two of steps, counted from the same step on every rank. So
the windows of ranks that choose different lengths nest, and the reader finds ends that all ranks
share without any communication. A window takes 1/64 of the time so far, between 0.25 s and 10 s: a
short run has enough of them, and a long one writes at a constant rate. Beside that, bytes are
bounded: where they would be exceeded, windows stay open.

Tested by tests/collect/steps/test_window_writer.py.
"""

SHORTEST_NS, LONGEST_NS = 250_000_000, 10_000_000_000
SHARE_OF_TIME = 64
MOST_STEPS = 1 << 20

BYTES_AT_ONCE, BYTES_PER_HOUR = 300_000, 600_000
"""Largest size of a file: the first, plus the second per hour; 0.9 MB after the first hour."""

_HOUR_NS = 3_600_000_000_000


def target_ns(elapsed_ns: int) -> int:
    """Length that a window should have, so long after the begin of the recording."""
    return min(max(elapsed_ns // SHARE_OF_TIME, SHORTEST_NS), LONGEST_NS)


def allowed_bytes(elapsed_ns: int) -> int:
    """Largest size of the recorder file, so long after the begin of the recording."""
    return BYTES_AT_ONCE + BYTES_PER_HOUR * elapsed_ns // _HOUR_NS


def next_length(num_steps: int, span_ns: int, goal_ns: int) -> int:
    """The power of two of steps that takes at most ``goal_ns``, at least 1.

    Args:
        num_steps: Steps of the window before.
        span_ns: Its length.
        goal_ns: The length that the next one should have.
    """
    fitting = min(goal_ns * num_steps // max(span_ns, 1), MOST_STEPS)
    return 1 << max(fitting.bit_length() - 1, 0)


def power_of_two_below(number: int) -> int:
    """The largest power of two that is not larger than a number from 1 on."""
    return 1 << (number.bit_length() - 1)
