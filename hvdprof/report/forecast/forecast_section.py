"""The rows of a forecast as texts."""

from collections.abc import Callable, Iterator, Sequence

from hvdprof import units
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.results.forecast import Forecast
from hvdprof.model.tables.forecast_tables import QUANTILES
from hvdprof.report.forecast.forecast_texts import (
    NO_CAUSE,
    efficiency_band,
    limited_by,
    network_name,
)

FORECAST_HEADS = (
    *("np", "network", "efficiency", "50 % band"),
    *("samples/s", "chance of target", "limited by"),
)

NEARLY = 0.03
"""Networks whose efficiencies differ by less share a row of the table."""

_SAME = ("np", "dominating", "dominating_part", "is_open")


def forecast_rows(forecast: Forecast) -> tuple[tuple[str, ...], ...]:
    """The rows of all sizes and networks, as ``FORECAST_HEADS`` has them."""
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
