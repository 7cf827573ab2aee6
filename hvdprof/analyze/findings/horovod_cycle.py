"""Horovod's cycle: how long it is in a run, and which longer ones are worth a try."""

from hvdprof.analyze.findings.evidence import Evidence

CYCLE_TIME = "HOROVOD_CYCLE_TIME"
DEFAULT_CYCLE_MS = 1.0
"""Of Horovod since 0.21."""

MOST_OF_A_STEP = 0.25
"""A longer cycle than this share of a step is not worth a try: it delays every gradient by it."""

_LONG_CYCLES_MS = (2.5, 5.0, 10.0)


def cycle_ms(evidence: Evidence) -> float:
    """HOROVOD_CYCLE_TIME of the run's ranks in ms, or Horovod's default."""
    text = evidence.setting(CYCLE_TIME)
    try:
        return float(text) if text else DEFAULT_CYCLE_MS
    except ValueError:
        return DEFAULT_CYCLE_MS


def longer_cycles(present_ms: float, step_ms: float) -> list[float]:
    """Values of HOROVOD_CYCLE_TIME in ms, shortest first, that fuse more and delay little.

    Args:
        present_ms: The value in use.
        step_ms: Time of a step; NaN, where it is not known, allows none.
    """
    return [cycle for cycle in _LONG_CYCLES_MS if present_ms < cycle <= MOST_OF_A_STEP * step_ms]
