"""What limits the largest predicted size of a forecast, and whether its networks change it."""

from collections.abc import Sequence
from dataclasses import dataclass

from hvdprof.model.arrays import FrameRow
from hvdprof.model.results.forecast import Forecast

LEAST_POINTS = 0.005
"""Networks whose medians differ by less change nothing that is worth a sentence."""

_LIKELY = 0.5


@dataclass(frozen=True, slots=True)
class LimitingCause:
    """The largest cause over some networks, as FORECAST has it.

    Attributes:
        term: The cause; empty where none costs half a point.
        part: Of exposed transfer, its largest part.
        networks: The scenarios that it limits, the one of the largest loss first.
        is_likely: Whether it is the largest cause in most draws over each of them.
    """

    term: str
    part: str
    networks: tuple[str, ...]
    is_likely: bool


def last_rows(forecast: Forecast) -> Sequence[FrameRow]:
    """The rows of FORECAST of the largest size, the one of the largest loss first."""
    largest = forecast.rows[forecast.rows["np"] == forecast.rows["np"].max()]
    return list(largest.sort_values("efficiency_p50", kind="stable").to_dict("records"))


def limiting_causes(forecast: Forecast) -> tuple[LimitingCause, ...]:
    """What limits the largest size, the largest loss first; one where all networks agree."""
    groups: dict[tuple[str, str], list[FrameRow]] = {}
    for row in last_rows(forecast):
        groups.setdefault((str(row["dominating"]), str(row["dominating_part"])), []).append(row)
    return tuple(
        LimitingCause(
            *key,
            tuple(str(row["scenario"]) for row in rows),
            # NaN where there is no cause.
            not any(row["dominating_probability"] < _LIKELY for row in rows),
        )
        for key, rows in groups.items()
    )


def network_matters(forecast: Forecast) -> bool:
    """Whether the medians at the largest size differ between the networks."""
    medians = [float(row["efficiency_p50"]) for row in last_rows(forecast)]
    return medians[-1] - medians[0] >= LEAST_POINTS
