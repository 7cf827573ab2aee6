"""The sentences of a forecast: verdict, caveat, what to measure next, what limits and widens it.

Tested in ``tests/report/forecast/test_forecast_terminal.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.model.causes import FORECAST_TERMS, part_of_cause
from hvdprof.model.forecast import (
    INPUTS,
    MEASURED,
    STATED_BASELINE,
    Forecast,
    Limits,
    limit_sentence,
)
from hvdprof.model.frame_row import FrameRow

_SMALLEST_WIDTH = 0.05
"""Inputs that cause less of the variance are not named."""

_RUN = "RUN"


def limited_by(row: FrameRow) -> str:
    """The dominating cause of a row of FORECAST with its part; empty without one."""
    if not row["dominating"]:
        return ""
    return FORECAST_TERMS[str(row["dominating"])] + part_of_cause(str(row["dominating_part"]))


def network_name(scenario: str) -> str:
    """What a scenario is called in texts."""
    return "the measured network" if scenario == MEASURED else scenario


def title_of(forecast: Forecast, scenario: str) -> str:
    """What the bands over a network are of, with all that is assumed."""
    clause = forecast.question.what_if_clause
    return f"{forecast.model} over {network_name(scenario)}{clause}, against {forecast.baseline}"


def verdict_of(forecast: Forecast) -> str:
    """Two sentences: the efficiency at the largest size, and the largest size at the target."""
    if forecast.rows.empty:
        return "No size was predicted."
    if len(forecast.scenarios) > 1:
        return _verdict_of_scenarios(forecast)
    last = _last_row(forecast, forecast.scenarios[0])
    cause = limited_by(last)
    what = f" {_capital(cause)} limits it." if cause else " No single cause limits it."
    where = f"{units.count(last['np'])} ranks{forecast.question.what_if_clause}"
    return f"{_efficiency(last)} scaling efficiency on {where}.{what}"


def reach_of(forecast: Forecast) -> str:
    """The sentence on the largest number of ranks at the target; of scenarios, one range."""
    goal = units.percent_limit(forecast.question.target)
    if not forecast.limits:
        return ""
    if len(forecast.limits) == 1:
        return limit_sentence(forecast.limits[0], forecast.question.target)
    if all(limit.largest_np < 1 for limit in forecast.limits):
        return f"No predicted size reaches {goal} over any of these networks."
    parts = ", ".join(f"{limit.scenario}: {_reached(limit)}" for limit in forecast.limits)
    return f"Largest number of ranks at {goal}: {parts}."


def caveat_of(forecast: Forecast) -> str:
    """What limits the numbers: extrapolation, excluded sizes, an open band; one line."""
    if forecast.rows.empty:
        return ""
    used = ", ".join(str(size) for size in forecast.measured_np)
    farthest = float(forecast.rows["extrapolation"].max())
    parts = [f"Extrapolated to {farthest:.3g} times the largest measured size (np={used})."]
    if forecast.baseline == STATED_BASELINE:
        parts = ["Nothing was measured: the throughput of one rank is stated."]
    if forecast.excluded_np:
        sizes = ", ".join(str(size) for size in forecast.excluded_np)
        parts.append(f"np={sizes} not used: more ranks than cores.")
    if forecast.rows["is_open"].any():
        parts.append("The tail of the jitter is not known, so the band is open below.")
    return " ".join(parts)


def knee_of(limits: Limits) -> str:
    """Where a doubling begins to cost more than 5 points."""
    if limits.knee is None:
        return "No knee in the predicted sizes."
    chance = units.percent(limits.knee_probability, 0)
    return (
        f"Knee at {units.counted(limits.knee, 'rank')}: the next doubling costs more than 5 points "
        f"of efficiency (probability {chance})."
    )


def next_step_of(forecast: Forecast, run: str = _RUN) -> tuple[str, str]:
    """What to measure next with its gain, and the command; both empty where nothing helps.

    Args:
        forecast: A finished forecast.
        run: The run directory in the command.
    """
    if forecast.measurements.empty:
        lacking = next((gap for gap in forecast.missing if gap.command), None)
        if lacking is None:
            return "", ""
        return f"{lacking.what.rstrip('.')}: {lacking.instead.rstrip('.')}.", _of_run(
            lacking.command, run
        )
    order = forecast.measurements.sort_values(["rank", "band_before"], ascending=[True, False])
    best = order.iloc[0]
    before, after = 100 * float(best["band_before"]), 100 * float(best["band_after"])
    last = units.count(max(forecast.question.sizes))
    over = _over(forecast, str(best["scenario"]))
    cost = f"about {units.duration(float(best['duration_s']))} on np={best['measure_np']}"
    gain = (
        f"narrows the 90 % band on {last} ranks{over} from {before:.0f} to about {after:.0f} points"
    )
    return f"{cost} {gain}.", _of_run(str(best["command"]), run)


def width_sentence(forecast: Forecast) -> str:
    """Which inputs the width of the band at the largest size comes from; empty where unknown."""
    widths = forecast.widths
    if widths.empty:
        return ""
    own = widths[widths["scenario"] == forecast.scenarios[0]]
    ordered = own.sort_values("first_order", ascending=False).to_dict("records")
    named = [
        f"{INPUTS.get(str(row['input']), str(row['input']))} {units.percent(row['first_order'], 0)}"
        for row in ordered
        if row["first_order"] >= _SMALLEST_WIDTH
    ]
    if not named:
        return ""
    where = f"{units.count(max(forecast.question.sizes))} ranks{_over(forecast)}"
    return f"Variance of the efficiency on {where} by input: {', '.join(named)}."


def missing_sentences(forecast: Forecast, run: str = _RUN) -> Iterator[str]:
    """What the run does not hold, what the forecast does instead, and what to run."""
    for gap in forecast.missing:
        how = f" Measure it: {_of_run(gap.command, run)}" if gap.command else ""
        instead = _capital(gap.instead.rstrip("."))
        yield f"{_capital(gap.what.rstrip('.'))}. {instead}.{how}"


def lost_points(forecast: Forecast, scenario: str) -> pd.DataFrame:
    """Mean shares by cause [np, terms], the terms in the order of FORECAST_TERMS; parts joined."""
    causes = forecast.causes[forecast.causes["scenario"] == scenario]
    if causes.empty:
        return pd.DataFrame()
    summed = causes.pivot_table(
        index="np", columns="term", values="share", aggfunc="sum", fill_value=0.0
    )
    return summed[[term for term in FORECAST_TERMS if term in summed.columns]]


def _verdict_of_scenarios(forecast: Forecast) -> str:
    lasts = [_last_row(forecast, scenario) for scenario in forecast.scenarios]
    ordered = sorted(lasts, key=lambda row: float(row["efficiency_p50"]))
    worst, best = ordered[0], ordered[-1]
    return (
        f"Scaling efficiency on {units.count(worst['np'])} ranks"
        f"{forecast.question.what_if_clause}: {_efficiency(worst)} over "
        f"{worst['scenario']}, {_efficiency(best)} over {best['scenario']}. The network between "
        "hosts decides."
    )


def _over(forecast: Forecast, scenario: str = "") -> str:
    """The network of a number, where the forecast has several; the first when not given."""
    if len(forecast.scenarios) == 1:
        return ""
    return f" over {network_name(scenario or forecast.scenarios[0])}"


def _last_row(forecast: Forecast, scenario: str) -> FrameRow:
    rows = forecast.rows[forecast.rows["scenario"] == scenario]
    return rows.sort_values("np").to_dict("records")[-1]


def _efficiency(row: FrameRow) -> str:
    return units.percent_band(*(float(row[f"efficiency_{q}"]) for q in ("p50", "p5", "p95")))


def _reached(limits: Limits) -> str:
    if limits.largest_np < 1:
        return "none"
    return f"{units.count(limits.largest_np)}{' or more' if limits.is_beyond else ''}"


def _of_run(command: str, run: str) -> str:
    words = command.split(" ")
    return " ".join(run if word == _RUN else word for word in words)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
