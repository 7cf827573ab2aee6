"""The verdict on the rates that a job printed: the rate, its scope, data wait, falls and pauses."""

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.log_facts import numbered_lines
from hvdprof.analyze.scaling.scaling_verdict import scaling_verdicts
from hvdprof.analyze.scaling.throughput_scaling import contradicted_speedups, throughput_scaling
from hvdprof.analyze.stats.change_point import best_splits, has_changed
from hvdprof.model.arrays import Float64s
from hvdprof.model.file_page import Fact, FileVerdict, Gravity

_SCOPES = {"job": " of all ranks together", "rank": " per rank", "": " as printed"}
_KIND = ["tool", "unit", "per"]
_MANY = 4
"""Fewer lines show no spread."""
_FALL, _SLOWER, _LEAST_LINES, _LEVEL = 1.2, 0.9, 8, 0.01
_PAUSE_STEPS, _ROUNDED = 2, 0.002
"""A pause is at least so many steps long, and longer than what rounding of the mean explains."""


def rates_verdict(rows: pd.DataFrame) -> FileVerdict:
    """The rate of one run with unit and scope; empty for several runs, and without any.

    Args:
        rows: Rows of PRINTED_RATES of one file.
    """
    if rows.empty or len(set(rows["job"])) > 1:
        return FileVerdict("")
    series, lines, between = _series(rows)
    tool, unit, per = (str(series[name].iloc[0]) for name in _KIND)
    steady, basis = _steady(lines, between, series)
    rate = float(np.median(steady))
    parts = [f"{units.of_unit(rate, unit)}{_SCOPES[per]} ({tool}, {basis}"]
    if len(steady) >= _MANY:
        low, high = np.quantile(steady, (0.25, 0.75))
        parts.append(f"; middle half {units.rate(low)} to {units.rate(high)}")
    parts.append(")")
    parts += _step(series, rate, unit, per)
    if (share := _data_share(series, between)) is not None:
        parts.append(f"; {units.percent(share)} of the step time is data wait")
    changes = [*_change(lines, steady, unit), *_pause(between, series)]
    caveats = changes + _uneven(lines, steady) + _slower_between(rate, between, lines, unit)
    if per and unit != "steps/s" and series["np"].isna().all():
        caveats.append(
            "Number of ranks unknown: with it in the name of the file, such as train_np4.log, "
            "several files give the efficiency."
        )
    gravity = Gravity.WARNING if changes else Gravity.NONE
    return FileVerdict(f"{''.join(parts)}.", " ".join(caveats), gravity)


def throughput_verdict(rows: pd.DataFrame) -> FileVerdict:
    """The verdict on a table of throughputs, as ``hvdprof scaling`` gives it for one series.

    Of several series, the range of their efficiencies.

    Args:
        rows: Rows of THROUGHPUT of one file.
    """
    comparable = [
        members
        for _, members in rows[rows["samples_per_s"] > 0].groupby(
            "series", observed=True, sort=False
        )
        if len(set(members["np"])) > 1
    ]
    if not comparable:
        return FileVerdict("")
    caveat = contradicted_speedups(comparable)
    if len(comparable) > 1:
        scaled = throughput_scaling(pd.concat(comparable), repeats=True)
        reached = scaled.groupby("series", observed=True)["efficiency"].last()
        ends = " to ".join(units.percent(end) for end in (reached.min(), reached.max()))
        lead = f"{len(comparable)} series: {ends} scaling efficiency"
        return FileVerdict(f"{lead} on the largest rank count of each.", caveat)
    verdict = scaling_verdicts(throughput_scaling(comparable[0], repeats=True))[0]
    return FileVerdict(verdict.sentence, " ".join(filter(None, (verdict.caveat, caveat))))


def rate_facts(rates: pd.DataFrame) -> list[Fact]:
    """What a job printed of its throughput; of several runs, a line for each."""
    facts = [Fact("num_rates", "printed rates", len(rates))]
    totals = rates[(rates["scope"] == "job").to_numpy()]
    jobs = [members for _, members in totals.groupby("job", sort=True)]
    if len(jobs) == 1:
        mean = float(jobs[0]["rate"].mean())
        facts.append(Fact("total_samples_per_s", "total as printed", mean, "samples/s"))
    elif jobs:
        of_jobs = numbered_lines([_of_job(members) for members in jobs])
        facts.append(Fact("each_job", "run", of_jobs))
    elif len(set(rates["job"])) == 1:
        series, lines, between = _series(rates)
        unit, scope = str(series["unit"].iloc[0]), _SCOPES[str(series["per"].iloc[0])]
        rate = float(np.median(_steady(lines, between, series)[0]))
        text = units.of_unit(rate, unit)
        facts.append(Fact("rate_median", f"rate{scope}, median", rate, text=text))
    return facts


def _series(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The rows of the first kind of rate, those of single lines, and what means say between."""
    shown = rows[(rows["scope"] == "step").to_numpy()]
    shown = shown if len(shown) else rows
    series = shown[(shown[_KIND] == shown[_KIND].iloc[0]).all(axis=1)]
    lines = series[series["mean_of"].isna()]
    return series, lines, _between_means(series[series["mean_of"].notna()])


def _of_job(totals: pd.DataFrame) -> str:
    last = totals.iloc[-1]
    ranks = "" if pd.isna(last["np"]) else f", {units.counted(int(last['np']), 'rank')}"
    mean = units.of_unit(float(totals["rate"].mean()), "samples/s")
    return f"{last['tool']}{ranks}: {mean}, line {last['line']}"


def _between_means(means: pd.DataFrame) -> pd.DataFrame:
    """What running means say of the steps between two of their lines, on one rank.

    ``steps`` and ``time`` (that of ``steps`` divided by units per step), ``data_s``, ``step_s``.
    """
    number = means["mean_of"].astype("float64")
    sums = pd.DataFrame(
        {
            "steps": number,
            "time": number / means["rate"],
            "step_s": number * means["step_ns"].astype("float64") / 1e9,
            "data_s": number * means["data_ns"].astype("float64") / 1e9,
        }
    )
    rank = means["rank"].fillna(-1).astype("int64")
    found = sums.groupby(rank, sort=False).diff()
    found["end"] = means["iteration"]
    # A mean that begins anew, with an epoch, has no line before it.
    return found[(found["steps"] > 0) & (found["time"] > 0)]


def _steady(
    lines: pd.DataFrame, between: pd.DataFrame, series: pd.DataFrame
) -> tuple[Float64s, str]:
    """Rates without the first line of each rank, which holds start-up, and what they are."""
    later = lines[lines.groupby(lines["rank"].fillna(-1), sort=False).cumcount() > 0]
    if len(later):
        return later["rate"].to_numpy(np.float64), _counted("line", len(later)) + _other(lines)
    if len(between):
        rates = (between["steps"] / between["time"]).to_numpy(np.float64)
        return rates, f"between {units.counted(len(between) + 1, 'line')} of a running mean"
    if (series["scope"] != "step").any():
        return series["rate"].to_numpy(np.float64)[-1:], "mean of the whole run with start-up"
    if len(lines) > 1:
        return lines["rate"].to_numpy(np.float64), "in the first line of each rank, with start-up"
    ends = (lines if len(lines) else series)["rate"].to_numpy(np.float64)
    if len(ends) > 1:
        return ends[1:], _counted("epoch", len(ends) - 1)
    return ends, "in one line alone, with start-up"


def _other(lines: pd.DataFrame) -> str:
    """The rate of the first of two lines without a number: they may be of two runs."""
    if len(lines) != 2 or lines["iteration"].notna().any():
        return ""
    first = lines.iloc[0]
    return f", which says {units.of_unit(float(first['rate']), str(first['unit']))}"


def _uneven(lines: pd.DataFrame, steady: Float64s) -> list[str]:
    """A sentence on lines whose steps take far longer than the usual ones, as with evaluation."""
    if len(steady) < _MANY or lines.empty or (steady <= 0).any():
        return []
    longer = float(np.median(steady)) / steady
    if not (number := int((longer > 2).sum())):
        return []
    many, most = f"{number} of {len(steady)}", round(float(longer.max()))
    return [f"{many} of these lines took over twice as long as the median, up to {most} times."]


def _counted(noun: str, number: int) -> str:
    if number == 1:
        return f"in the one {noun} after the first"
    return f"median of {units.counted(number, noun)} after the first"


def _step(series: pd.DataFrame, rate: float, unit: str, per: str) -> list[str]:
    """The units of a step where lines state its time, else that time."""
    known = series[series["step_ns"].notna()]
    if known.empty:
        return []
    if unit == "steps/s":
        return [f", step {units.milliseconds(1e9 / rate)}"]
    sizes = known["rate"] * known["step_ns"].astype("float64") / 1e9
    size = float(sizes.median())
    noun = unit.removesuffix("/s")
    return [f", {units.count(round(size))} {noun} per {'rank and ' * (per == 'rank')}step"]


def _data_share(series: pd.DataFrame, between: pd.DataFrame) -> float | None:
    """The share of data wait in the steps after the first line; None where it is not printed."""
    known = series[series["data_ns"].notna() & series["mean_of"].isna()]
    shares = []
    if len(later := known.iloc[1:]):
        shares.append(float(later["data_ns"].median()) / float(later["step_ns"].median()))
    if between["step_s"].sum() > 0 and between["data_s"].notna().any():
        # Lines of single steps miss waits between them; differences of means do not.
        shares.append(float(between["data_s"].sum() / between["step_s"].sum()))
    return min(max(shares), 1.0) if shares else None


def _change(lines: pd.DataFrame, steady: Float64s, unit: str) -> list[str]:
    """A sentence on a series that falls to another level; rates of several ranks are no series."""
    if len(steady) < _LEAST_LINES or (steady <= 0).any() or len(set(lines["rank"].dropna())) > 1:
        return []
    logs = np.log(steady)
    split = int(best_splits(logs[:, None], 2)[0])
    before, after = float(np.median(steady[:split])), float(np.median(steady[split:]))
    if before < _FALL * after or not has_changed(-logs, split, _LEVEL):
        return []
    where = f" from line {lines['line'].iloc[split + 1]} on" if len(lines) > len(steady) else ""
    return [f"It falls from {units.rate(before)} to {units.of_unit(after, unit)}{where}."]


def _pause(between: pd.DataFrame, series: pd.DataFrame) -> list[str]:
    """A sentence on the longest pause that a running mean shows."""
    if len(between) < _MANY - 1:
        return []
    steps, times = (between[name].to_numpy(np.float64) for name in ("steps", "time"))
    usual = float(np.median(times / steps))
    lost = times / usual - steps
    place = int(lost.argmax())
    end, longest = int(between["end"].iloc[place]), float(lost[place])
    if longest < max(_PAUSE_STEPS, _ROUNDED * end, steps[place] / 2):
        return []
    sizes = series["rate"] * series["step_ns"].astype("float64") / 1e9
    size = float(sizes.median())
    length = f" ({units.seconds(longest * usual * size)})" if size == size else ""
    begin = end - int(steps[place])
    return [
        f"Between iterations {begin} and {end} it pauses for as long as {round(longest)} "
        f"steps{length}; the running mean falls with it."
    ]


def _slower_between(
    rate: float, between: pd.DataFrame, lines: pd.DataFrame, unit: str
) -> list[str]:
    """A sentence on steps that are slower than those whose rates are printed."""
    if between.empty or lines.empty:
        return []
    overall = float(between["steps"].sum() / between["time"].sum())
    if overall > _SLOWER * rate:
        return []
    return [
        f"The mean of all steps is {units.of_unit(overall, unit)}: steps without a line are slower."
    ]
