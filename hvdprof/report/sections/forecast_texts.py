"""The sentences of a forecast: verdict, caveat, what to measure next, what limits and widens it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.causes import FORECAST_TERMS, part_of_cause
from hvdprof.model.notes import Note, NoteCode, texts
from hvdprof.model.results.forecast import (
    INPUTS,
    MEASURED,
    STATED_BASELINE,
    Forecast,
    Limits,
    efficiency_sentence,
    limit_sentence,
)

LEAST_POINTS = 0.005
"""Networks whose medians differ by less change nothing that is worth a sentence."""

_LIKELY = 0.5

_SMALLEST_WIDTH = 0.05
"""Inputs that cause less of the variance are not named."""

_RUN = "RUN"

NO_CAUSE = "no single cause"
"""What limits a size where no cause costs half a point."""


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


def limited_by(row: FrameRow) -> str:
    """The dominating cause of a row of FORECAST with its part; empty without one."""
    return _cause(str(row["dominating"]), str(row["dominating_part"]))


def _cause(term: str, part: str) -> str:
    return FORECAST_TERMS[term] + part_of_cause(part) if term else ""


def network_name(scenario: str) -> str:
    """What a scenario is called in texts."""
    return "the measured network" if scenario == MEASURED else scenario


def title_of(forecast: Forecast) -> str:
    """What the bands are of, with all that is assumed."""
    names = " and ".join(network_name(name) for name in forecast.scenarios[:2])
    over = names if len(forecast.scenarios) < 3 else f"{len(forecast.scenarios)} networks"
    clause = forecast.question.what_if_clause
    return f"{forecast.model} over {over}{clause}, against {forecast.baseline}"


def verdict_of(forecast: Forecast) -> str:
    """Two sentences: the efficiency at the largest size, and what limits it there."""
    if forecast.rows.empty:
        return "No size was predicted."
    if busy := _busy(forecast):
        return f"{busy.text} The numbers below are those of a busy machine."
    *_, best = lasts = last_rows(forecast)
    worst, several = lasts[0], len(lasts) > 1
    where = f"{units.count(worst['np'])} ranks{forecast.question.what_if_clause}"
    if network_matters(forecast):
        numbers = (
            f"Scaling efficiency on {where}: {efficiency_band(worst)} over {worst['scenario']}, "
            f"{efficiency_band(best)} over {best['scenario']}."
        )
    else:
        over = f" over each of {len(lasts)} networks" if several else ""
        numbers = efficiency_sentence(*_ends(worst), where + over)
    if units.says_nothing(*_ends(worst)):
        # What limits an efficiency that is not known is not known, either.
        return numbers
    return f"{numbers} {_limiting_sentence(limiting_causes(forecast))}"


def _limiting_sentence(causes: Sequence[LimitingCause]) -> str:
    """What limits the largest size over which networks, the one of the largest loss first."""
    if not any(one.term for one in causes):
        return "No single cause limits it."
    parts = []
    for place, one in enumerate(causes):
        name = _cause(one.term, one.part) or NO_CAUSE
        does = "" if place else " limits it" if one.is_likely else " costs most on average"
        is_rest = place == len(causes) - 1 and len(one.networks) > 1
        names = "the other networks" if is_rest else " and ".join(one.networks)
        parts.append(f"{name}{does}{f' over {names}' if len(causes) > 1 else ''}")
    return f"{_capital(', '.join(parts))}."


def reach_of(forecast: Forecast) -> str:
    """The sentence on the largest number of ranks at the target; of scenarios, one range."""
    goal = units.percent_limit(forecast.question.target)
    if not forecast.limits or _busy(forecast):
        return ""
    if len(forecast.limits) == 1:
        return limit_sentence(forecast.limits[0], forecast.question.target)
    if all(limit.largest_np < 1 for limit in forecast.limits):
        return f"No predicted size reaches {goal} over any of these networks."
    parts = ", ".join(f"{limit.scenario}: {_reached(limit)}" for limit in forecast.limits)
    return f"Largest number of ranks at {goal}: {parts}."


def caveat_of(forecast: Forecast) -> str:
    """What limits the numbers: extrapolation, excluded sizes, an open band, caveats of the run."""
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
    others = (note for note in forecast.caveats if note.code != NoteCode.TOO_BUSY)
    return " ".join([*parts, *texts(others)])


def knee_sentences(limits: Sequence[Limits]) -> Iterator[str]:
    """Where a doubling begins to cost more than 5 points; networks with one knee are joined."""
    ordered = sorted(limits, key=lambda limit: limit.knee or math.inf)
    for knee, alike in groupby(ordered, key=lambda limit: limit.knee):
        members = list(alike)
        names = ", ".join(network_name(limit.scenario) for limit in members)
        over = f" over {names}" if len(limits) > len(members) else ""
        if knee is None:
            yield f"No knee in the predicted sizes{over}."
            continue
        chances = [100 * limit.knee_probability for limit in members]
        ends = dict.fromkeys(f"{end(chances):.0f}" for end in (min, max))
        yield (
            f"Knee at {units.counted(knee, 'rank')}{over}: the next doubling costs more than 5 "
            f"points of efficiency (probability {' to '.join(ends)} %)."
        )


def next_step_of(forecast: Forecast, run: str = _RUN) -> tuple[str, str]:
    """What to measure next with its gain, and the command; both empty where nothing helps."""
    if busy := _busy(forecast):
        return "Measure it again when the machine is idle.", busy.value
    if forecast.measurements.empty:
        lacking = next((gap for gap in forecast.missing if gap.command), None)
        if lacking is None:
            return "", ""
        return f"{lacking.what.rstrip('.')}: {lacking.instead.rstrip('.')}.", _of_run(
            lacking.command, run
        )
    scenario = _widest(forecast)
    best = forecast.measurements.query("rank == 1 and scenario == @scenario").iloc[0]
    before, after = 100 * float(best["band_before"]), 100 * float(best["band_after"])
    last = units.count(max(forecast.question.sizes))
    over = _over(forecast, scenario)
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
    scenario = _widest(forecast)
    own = widths[widths["scenario"] == scenario]
    ordered = own.sort_values("first_order", ascending=False).to_dict("records")
    named = [
        f"{INPUTS.get(str(row['input']), str(row['input']))} {units.percent(row['first_order'], 0)}"
        for row in ordered
        if row["first_order"] >= _SMALLEST_WIDTH
    ]
    if not named:
        return ""
    where = f"{units.count(max(forecast.question.sizes))} ranks{_over(forecast, scenario)}"
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


def _widest(forecast: Forecast) -> str:
    """The network with the widest band at the largest size: what is said of the band is of it."""
    known = forecast.measurements
    if known.empty:
        return forecast.scenarios[0]
    return str(known["scenario"].iloc[int(known["band_before"].to_numpy().argmax())])


def _over(forecast: Forecast, scenario: str) -> str:
    """The network of a number, where the forecast has several."""
    return "" if len(forecast.scenarios) == 1 else f" over {network_name(scenario)}"


def efficiency_band(row: FrameRow) -> str:
    """The median efficiency with its 90 % band."""
    return units.percent_band(*_ends(row))


def _ends(row: FrameRow) -> tuple[float, float, float]:
    median, low, high = (float(row[f"efficiency_{short}"]) for short in ("p50", "p5", "p95"))
    return median, low, high


def _busy(forecast: Forecast) -> Note | None:
    """That other processes leave the run, and so its forecast, without an answer."""
    return next((note for note in forecast.caveats if note.code == NoteCode.TOO_BUSY), None)


def _reached(limits: Limits) -> str:
    if limits.largest_np < 1:
        return "none"
    return f"{units.count(limits.largest_np)}{' or more' if limits.is_beyond else ''}"


def _of_run(command: str, run: str) -> str:
    words = command.split(" ")
    return " ".join(run if word == _RUN else word for word in words)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
