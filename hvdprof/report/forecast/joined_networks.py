"""Rows of a forecast by size and network, in texts: networks that say nearly the same share one.

Tested in ``tests/report/forecast/test_joined_networks.py``.
"""

import math
from collections.abc import Iterator, Sequence

from hvdprof import units
from hvdprof.model.forecast import MEASURED, Forecast
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.tables.forecast_tables import QUANTILES

NEARLY = 0.03
"""Networks whose efficiencies differ by less share a row of the table."""


def network_name(scenario: str) -> str:
    """What a scenario is called in texts."""
    return "the measured network" if scenario == MEASURED else scenario


def network_rows(forecast: Forecast) -> Iterator[tuple[str, list[FrameRow]]]:
    """Rows of FORECAST by size and network; neighbours that say nearly the same are joined.

    Yields:
        The names of the networks, and their rows: one cause, and bands that differ by 3 points at
        most.
    """
    order = {name: place for place, name in enumerate(forecast.scenarios)}
    rows = sorted(forecast.rows.to_dict("records"), key=lambda row: order[str(row["scenario"])])
    joined: list[list[FrameRow]] = []
    for row in sorted(rows, key=lambda row: int(row["np"])):
        if joined and _is_nearly(joined[-1][0], row):
            joined[-1].append(row)
        else:
            joined.append([row])
    for members in joined:
        yield ", ".join(network_name(str(row["scenario"])) for row in members), members


def _is_nearly(one: FrameRow, other: FrameRow) -> bool:
    keys = ("np", "dominating", "dominating_part", "is_open")
    ends = [f"efficiency_{short}" for short in QUANTILES]
    return all(one[key] == other[key] for key in keys) and not any(
        abs(float(one[end]) - float(other[end])) > NEARLY for end in ends
    )


def efficiencies_of(rows: Sequence[FrameRow]) -> tuple[str, str]:
    """The median efficiencies of joined rows, and the ends of their 90 % bands; without units."""
    medians = _percents(rows, "p50", "p50")
    ends = _percents(rows, "p5", "p95")
    return medians, ends


def _percents(rows: Sequence[FrameRow], low: str, high: str) -> str:
    """From the smallest to the largest in whole percent, ``84 or less`` where open below."""
    smallest = min(float(row[f"efficiency_{low}"]) for row in rows)
    largest = max(float(row[f"efficiency_{high}"]) for row in rows)
    if math.isnan(smallest):
        return f"{100 * largest:.0f} or less"
    return " to ".join(dict.fromkeys(f"{100 * end:.0f}" for end in (smallest, largest)))


def band_50(rows: Sequence[FrameRow]) -> str:
    """The 50 % band of the efficiency of joined rows."""
    return f"{_percents(rows, 'p25', 'p75')} %"


def chances_of(rows: Sequence[FrameRow]) -> str:
    """The probability that joined rows reach the target."""
    ends = (end(float(row["meets_target"]) for row in rows) for end in (min, max))
    return " to ".join(dict.fromkeys(f"{100 * chance:.0f}" for chance in ends)) + " %"


def rates_of(rows: Sequence[FrameRow]) -> str:
    """The median throughput of joined rows, the range where they differ."""
    ends = (end(float(row["samples_per_s_p50"]) for row in rows) for end in (min, max))
    return " to ".join(dict.fromkeys(map(units.rate, ends)))
