"""Injected faults: kind, rank, time; and their form as text.

``sleep:phase=backward,rank=1,amount=20ms`` is one fault; several are separated by semicolons.
Faults of clocks have a form of their own (``ClockFault``).
"""

import math
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdprof.errors import UsageError

CLOCK_KIND = "clock"
CLOCK_KEYS = ("rank", "offset", "drift")
MAX_OFFSET_S = 3600.0
MAX_DRIFT_PPM = 10_000.0

Clock = Callable[[], int]

_OFFSET = re.compile(r"(-?\d+(?:\.\d+)?)(us|ms|s)")
_DRIFT = re.compile(r"(-?\d+(?:\.\d+)?)ppm")
_NS = {"us": 1e3, "ms": 1e6, "s": 1e9}

FAULTS = "HVDPROF_FAULTS"

KINDS = ("sleep", "cpu", "pause")
PHASES = ("data", "forward", "backward", "optimizer")
MAX_AMOUNT_S = 60.0
MOST = 999_999_999
"""The largest whole number of a fault."""

_KEYS = ("phase", "rank", "amount", "every", "rotating", "probability", "seed", "first", "last")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(ms|s|%)")
_HINT = "As in sleep:phase=backward,rank=1,amount=20ms; see docs/howto/inject.md for all keys."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """A clock that is ``offset_ns`` ahead and gains ``drift_ppm`` microseconds per second.

    ``ranks`` is empty for all. Only the recorder's readings are skewed, not the host's clock.
    """

    text: str
    offset_ns: float
    drift_ppm: float
    ranks: tuple[int, ...] = ()


def offset_of(value: str) -> float | None:
    """Nanoseconds of ``5ms``, ``-200us``, ``1.5s``; None where it is no such length."""
    match = _OFFSET.fullmatch(value)
    if match is None:
        return None
    offset_ns = float(match[1]) * _NS[match[2]]
    return offset_ns if abs(offset_ns) <= MAX_OFFSET_S * 1e9 else None


def drift_of(value: str) -> float | None:
    """The number of ``20ppm``; None where it is none."""
    match = _DRIFT.fullmatch(value)
    if match is None:
        return None
    return float(match[1]) if abs(float(match[1])) <= MAX_DRIFT_PPM else None


def clock_of(faults: Sequence[ClockFault], rank: int) -> Clock:
    """The monotonic clock of a rank, ns, with the faults that name it."""
    own = [fault for fault in faults if not fault.ranks or rank in fault.ranks]
    if not own:
        return time.monotonic_ns
    offset = sum(fault.offset_ns for fault in own)
    rate = 1 + sum(fault.drift_ppm for fault in own) * 1e-6
    begin = time.monotonic_ns()

    def skewed() -> int:
        return begin + round(offset + (time.monotonic_ns() - begin) * rate)

    return skewed


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    ``kind`` is ``sleep`` (the rank waits), ``cpu`` (it computes in vain) or ``pause`` (it waits
    between two steps, as for a garbage collection; ``phase`` is empty then). ``amount`` is in
    nanoseconds, or a ratio of the rank's own step where ``is_share``. ``ranks`` is empty for all.
    The fault comes every ``every`` steps; with ``rotating`` the ranks take turns, ``every`` steps
    each; with ``probability`` below 1 every step draws on its own, by ``seed``. It comes from step
    ``first`` to ``last``.
    """

    text: str
    kind: str
    phase: str
    amount: float
    is_share: bool
    ranks: tuple[int, ...] = ()
    every: int = 1
    rotating: bool = False
    probability: float = 1.0
    seed: int = 0
    first: int = 0
    last: int = MOST

    def is_due(self, rank: int, size: int, step: int) -> bool:
        """Whether the fault comes in that rank in that step of a segment, counted from 0."""
        if (self.ranks and rank not in self.ranks) or not self.first <= step <= self.last:
            return False
        if self.rotating:
            members = self.ranks or range(size)
            return members[step // self.every % len(members)] == rank
        if step % self.every:
            return False
        if self.probability >= 1:
            return True
        return random.Random(f"{self.seed}:{rank}:{step}").random() < self.probability

    def length_ns(self, step_ns: float) -> float:
        """How long the fault lasts in ns, for a step that takes ``step_ns`` without it."""
        return self.amount * step_ns if self.is_share else self.amount


def parse_faults(text: str) -> tuple[Fault | ClockFault, ...]:
    """The faults of a text as the environment variable ``HVDPROF_FAULTS`` holds it.

    Raises:
        UsageError: One of them cannot be understood.
    """
    return tuple(parse_fault(part.strip()) for part in text.split(";") if part.strip())


def to_text(faults: Sequence[Fault | ClockFault]) -> str:
    """The faults as the environment variable holds them."""
    return ";".join(fault.text for fault in faults)


def parse_fault(text: str) -> Fault | ClockFault:
    """The fault that a text such as ``sleep:phase=forward,rank=0+2,amount=10%,every=3`` names.

    Raises:
        UsageError: It cannot be understood.
    """
    kind, _, rest = text.partition(":")
    if kind == CLOCK_KIND:
        return _clock_fault(text, _values(text, rest, CLOCK_KEYS))
    if kind not in KINDS:
        known = ", ".join((*KINDS, CLOCK_KIND))
        raise _wrong(text, f"{kind!r} is no kind of fault; known are {known}")
    values = _values(text, rest, _KEYS)
    amount, is_share = _amount(text, values.get("amount", ""))
    return Fault(
        text=text,
        kind=kind,
        phase=_phase(text, kind, values.get("phase", "")),
        amount=amount,
        is_share=is_share,
        ranks=_ranks(text, values.get("rank", "all")),
        every=_whole(text, "every", values.get("every", "1"), least=1),
        rotating=_yes_or_no(text, values.get("rotating", "no")),
        probability=_probability(text, values.get("probability", "1")),
        seed=_whole(text, "seed", values.get("seed", "0"), least=0),
        first=_whole(text, "first", values.get("first", "0"), least=0),
        last=_whole(text, "last", values.get("last", str(MOST)), least=0),
    )


def _clock_fault(text: str, values: dict[str, str]) -> ClockFault:
    offset_ns = offset_of(values.get("offset", "0ms"))
    drift_ppm = drift_of(values.get("drift", "0ppm"))
    if offset_ns is None:
        raise _wrong(text, f"offset={values['offset']} is not a length such as 5ms or -200us")
    if drift_ppm is None:
        raise _wrong(text, f"drift={values['drift']} is not a drift such as 20ppm")
    if not offset_ns and not drift_ppm:
        raise _wrong(text, "neither offset= nor drift= says how far the clock is skewed")
    return ClockFault(
        text=text,
        offset_ns=offset_ns,
        drift_ppm=drift_ppm,
        ranks=_ranks(text, values.get("rank", "all")),
    )


def _values(text: str, rest: str, keys: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in keys or key in values:
            raise _wrong(text, f"{part!r} is not one of {', '.join(keys)} with a value, once")
        values[key] = value
    if values.get("rotating") == "yes" and "probability" in values:
        raise _wrong(text, "rotating and probability exclude each other")
    return values


def _amount(text: str, value: str) -> tuple[float, bool]:
    match = _AMOUNT.fullmatch(value)
    if match is None or float(match[1]) <= 0:
        raise _wrong(text, f"amount={value} is not a length such as 20ms, 1.5s or 10%")
    number = float(match[1])
    if match[2] == "%":
        if number > 1000:
            raise _wrong(text, f"amount={value} is more than ten steps")
        return number / 100, True
    seconds = number / 1000 if match[2] == "ms" else number
    if seconds > MAX_AMOUNT_S:
        raise _wrong(text, f"amount={value} is more than {MAX_AMOUNT_S:g} s per step")
    return seconds * 1e9, False


def _phase(text: str, kind: str, value: str) -> str:
    if kind == "pause":
        if value:
            raise _wrong(text, "a pause lies between two steps and has no phase")
        return ""
    if value not in PHASES:
        raise _wrong(text, f"phase={value} is none of {', '.join(PHASES)}")
    return value


def _ranks(text: str, value: str) -> tuple[int, ...]:
    if value == "all":
        return ()
    return tuple(dict.fromkeys(_whole(text, "rank", part, least=0) for part in value.split("+")))


def _whole(text: str, key: str, value: str, *, least: int) -> int:
    if not (value.isascii() and value.isdecimal()) or len(value) > 9 or int(value) < least:
        raise _wrong(text, f"{key}={value} is not a whole number of at least {least}")
    return int(value)


def _yes_or_no(text: str, value: str) -> bool:
    if value not in ("yes", "no"):
        raise _wrong(text, f"rotating={value} is neither yes nor no")
    return value == "yes"


def _probability(text: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number <= 1:
        raise _wrong(text, f"probability={value} is not above 0 and at most 1")
    return number


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"Fault {text!r}: {why}.", hint=_HINT)
