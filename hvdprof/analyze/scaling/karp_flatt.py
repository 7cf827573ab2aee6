"""The serial fraction that a speed-up amounts to."""

from hvdprof.analyze.stats.uncertainty import NAN


def karp_flatt(efficiency: float, scale: float) -> float:
    """The experimentally determined serial fraction ``(1/S - 1/n) / (1 - 1/n)``.

    ``n`` is by how much the job grew, ``S = efficiency * n`` by how much it got faster. A fraction
    that stays the same as the job grows is work that is not shared; one that rises is overhead that
    grows with it (A. Karp and H. Flatt, CACM 33, 1990). Negative where scaling is super-linear;
    NaN where the job did not grow.
    """
    if not scale > 1 or not efficiency > 0:
        return NAN
    return (1 / (efficiency * scale) - 1 / scale) / (1 - 1 / scale)


def efficiency_at(serial_fraction: float, scale: float) -> float:
    """The efficiency that Amdahl's law gives for a serial fraction."""
    return 1 / (1 + serial_fraction * (scale - 1))
