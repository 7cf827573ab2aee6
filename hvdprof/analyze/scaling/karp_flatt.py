"""The serial fraction of a speed-up (Karp-Flatt)."""

from hvdprof.analyze.stats.uncertainty import NAN


def karp_flatt(efficiency: float, scale: float) -> float:
    """The experimentally determined serial fraction ``(1/S - 1/n) / (1 - 1/n)``.

    ``n`` is the growth of the job, ``S = efficiency * n`` its speed-up. A fraction that is constant
    over sizes is work that is not parallel; a rising one is overhead that grows with the job
    (A. Karp and H. Flatt, CACM 33, 1990). Negative where scaling is super-linear; NaN for the same
    size.
    """
    if not scale > 1 or not efficiency > 0:
        return NAN
    return (1 / (efficiency * scale) - 1 / scale) / (1 - 1 / scale)


def efficiency_at(serial_fraction: float, scale: float) -> float:
    """The efficiency by Amdahl's law for a serial fraction."""
    return 1 / (1 + serial_fraction * (scale - 1))
