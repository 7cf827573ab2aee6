"""What limits the largest predicted size of a forecast, and whether its networks change it.

Tested in ``tests/model/test_limiting_cause.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from hvdprof.model.forecast import Forecast
from hvdprof.model.frame_row import FrameRow

LEAST_POINTS = 0.005
"""Networks whose medians differ by less change nothing that is worth a sentence."""

_LIKELY = 0.5


@dataclass(frozen=True, slots=True)
class LimitingCause:
    """The largest cause at the largest predicted size, over one or several networks.

    Attributes:
        term: As in FORECAST; empty where no cause costs half a point.
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
    ordered = last_rows(forecast)
    first = {_key(row): place for place, row in reversed(list(enumerate(ordered)))}
    groups = groupby(sorted(ordered, key=lambda row: first[_key(row)]), key=_key)
    found = []
    for (term, part), rows in groups:
        members = list(rows)
        found.append(
            LimitingCause(
                term,
                part,
                tuple(str(row["scenario"]) for row in members),
                # NaN where a forecast of an earlier version does not say.
                not any(row["dominating_probability"] < _LIKELY for row in members),
            )
        )
    return tuple(found)


def network_matters(forecast: Forecast) -> bool:
    """Whether the medians at the largest size differ between the networks."""
    *_, best = ordered = last_rows(forecast)
    return float(best["efficiency_p50"] - ordered[0]["efficiency_p50"]) >= LEAST_POINTS


def _key(row: FrameRow) -> tuple[str, str]:
    return str(row["dominating"]), str(row["dominating_part"])
