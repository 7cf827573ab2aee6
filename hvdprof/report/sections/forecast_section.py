"""The rows of a forecast as texts."""

from collections.abc import Callable, Iterator, Sequence

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.results.forecast import Forecast
from hvdprof.model.tables.forecast_tables import QUANTILES
from hvdprof.report.sections.forecast_texts import (
    NO_CAUSE,
    efficiency_band,
    limited_by,
    network_name,
)

EFFICIENCY_HEAD = "efficiency %\n(90 % band)\n50 % band"
RATE_HEAD = "samples/s\n(90 % band)"
BAND_HEADS = (EFFICIENCY_HEAD, RATE_HEAD)
SHORT_HEADS = ("efficiency %\n(90 % band)", "samples/s")
"""Heads where another column needs the room."""

NEARLY = 0.03
"""Networks whose efficiencies differ by less share a row of the table."""

_SAME = ("np", "dominating", "dominating_part", "is_open")


def forecast_heads(forecast: Forecast) -> tuple[str, ...]:
    """The heads of ``forecast_rows``."""
    chance = chance_head(forecast.question.target).replace("\n", " ")
    return ("np", "network", "efficiency", "50 % band", "samples/s", chance, "limited by")


def forecast_rows(forecast: Forecast) -> tuple[tuple[str, ...], ...]:
    """The rows of all sizes and networks, as ``forecast_heads`` has them."""
    return tuple(_row(networks, rows) for networks, rows in network_rows(forecast))


def _row(networks: str, rows: list[FrameRow]) -> tuple[str, ...]:
    medians = span(rows, "efficiency_p50", "efficiency_p50")
    ends = span(rows, "efficiency_p5", "efficiency_p95")
    return (
        units.count(rows[0]["np"]),
        networks,
        efficiency_band(rows[0]) if len(rows) == 1 else f"{medians} % (90 % band {ends})",
        f"{span(rows, 'efficiency_p25', 'efficiency_p75')} %",
        span(rows, "samples_per_s_p50", "samples_per_s_p50", units.rate),
        f"{span(rows, 'meets_target', 'meets_target')} %",
        limited_by(rows[0]) or NO_CAUSE,
    )


def network_rows(forecast: Forecast) -> Iterator[tuple[str, list[FrameRow]]]:
    """The names of networks, and their rows of FORECAST, by size; neighbours are joined.

    Joined are those with one cause whose bands differ by 3 points at most.
    """
    order = {name: place for place, name in enumerate(forecast.scenarios)}
    rows = forecast.rows.to_dict("records")
    joined: list[list[FrameRow]] = []
    for row in sorted(rows, key=lambda row: (int(row["np"]), order[str(row["scenario"])])):
        if joined and _is_nearly(joined[-1][0], row):
            joined[-1].append(row)
        else:
            joined.append([row])
    for members in joined:
        yield ", ".join(network_name(str(row["scenario"])) for row in members), members


def _is_nearly(one: FrameRow, other: FrameRow) -> bool:
    ends = (f"efficiency_{short}" for short in QUANTILES)
    differ = any(abs(float(one[end]) - float(other[end])) > NEARLY for end in ends)
    return not differ and all(one[key] == other[key] for key in _SAME)


def span(
    rows: Sequence[FrameRow], low: str, high: str, text: Callable[[float], str] | None = None
) -> str:
    """From the smallest of one column to the largest of another; ``84 or less`` where it is open.

    ``text`` writes a value, whole percent when not given.
    """
    write = text or (lambda ratio: f"{100 * ratio:.0f}")
    smallest = min(float(row[low]) for row in rows)
    largest = max(float(row[high]) for row in rows)
    if smallest != smallest:
        return f"{write(largest)} or less"
    return " to ".join(dict.fromkeys([write(smallest), write(largest)]))


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
