"""Cells of predicted rows that fit 80 columns whole: bands stand below their medians.

Tested in ``tests/report/answers/test_throughput_forecast.py``.
"""

from hvdprof import units
from hvdprof.model.frame_row import FrameRow

EFFICIENCY_HEAD = "efficiency %\n(90 % band)\n50 % band"
RATE_HEAD = "samples/s\n(90 % band)"
BAND_HEADS = (EFFICIENCY_HEAD, RATE_HEAD)
SHORT_HEADS = ("efficiency %\n(90 % band)", "samples/s")
"""Heads where another column needs the room."""


def chance_head(target: float) -> str:
    """The head of the probability that the efficiency reaches a target."""
    return f"chance\nof {units.percent_limit(target)}\nor more"


def efficiency_cell(row: FrameRow) -> str:
    """Median and 90 % band of the efficiency in percent, the 50 % band below them."""
    ends = (float(row[f"efficiency_{short}"]) for short in ("p50", "p5", "p95"))
    known = "not known" if units.says_nothing(*ends) else f"{100 * row['efficiency_p50']:.1f}"
    return f"{known} ({_percents(row, 'p5', 'p95')})\n{_percents(row, 'p25', 'p75')}"


def rate_cell(row: FrameRow, name: str = "samples_per_s") -> str:
    """The median of an amount, its 90 % band below it."""
    low, middle, high = (float(row[f"{name}_{short}"]) for short in ("p5", "p50", "p95"))
    ends = (
        f"{units.rate(low)} to {units.rate(high)}" if low == low else f"{units.rate(high)} or less"
    )
    return f"{units.rate(middle)}\n({ends})"


def _percents(row: FrameRow, low: str, high: str) -> str:
    ends = [100 * float(row[f"efficiency_{short}"]) for short in (low, high)]
    if ends[0] != ends[0]:
        return f"{ends[1]:.0f} or less"
    return f"{ends[0]:.0f} to {ends[1]:.0f}"
