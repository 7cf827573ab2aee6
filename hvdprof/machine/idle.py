"""Waiting until other processes leave the cores of this host alone."""

import time
from collections import deque
from collections.abc import Callable

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.load import CpuUse

IDLE_CORES = 0.2
"""Cores that others may keep busy: a measurement under more carries a warning."""

IDLE_S = 20.0
LOOK_S = 1.0

OtherCores = Callable[[], float]
"""Cores that other processes kept busy in the latest ``LOOK_S`` seconds; it takes that long."""


def wait_for_idle(
    limit_s: float,
    *,
    on_look: Callable[[float], None] = lambda cores: None,
    other_cores: OtherCores | None = None,
) -> float:
    """Wait until others kept fewer than ``IDLE_CORES`` busy in the mean of ``IDLE_S`` seconds.

    Args:
        limit_s: Seconds to wait at most, from ``IDLE_S`` on.
        on_look: Called with that mean after every look.
        other_cores: What looks; this host when not given.

    Returns:
        The seconds that it took.

    Raises:
        EnvironmentNotReadyError: It was never idle, or the load of this host is not known.
    """
    look = other_cores or _look
    begin = time.monotonic()
    latest: deque[float] = deque(maxlen=round(IDLE_S / LOOK_S))
    least = float("inf")
    while True:
        latest.append(look())
        mean = sum(latest) / len(latest)
        on_look(mean)
        waited_s = time.monotonic() - begin
        if len(latest) == latest.maxlen:
            if mean < IDLE_CORES:
                return waited_s
            least = min(least, mean)
            if waited_s >= limit_s:
                raise EnvironmentNotReadyError(
                    f"This machine was not idle for {IDLE_S:g} s within {limit_s:g} s: other "
                    f"processes kept at least {least:.1f} cores busy. Nothing was measured.",
                    hint="End them, wait longer, or measure now without --wait-for-quiet.",
                )


def _look() -> float:
    use = CpuUse()
    use.start()
    time.sleep(LOOK_S)
    found = use.stop()
    if found is None:
        raise EnvironmentNotReadyError(
            "What other processes use of this machine is not known: there is no /proc/stat, or a "
            "quota on processor time.",
            hint="Measure without --wait-for-quiet.",
        )
    return found.other_cores
