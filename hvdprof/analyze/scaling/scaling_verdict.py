"""The verdict on a user's table of throughputs: efficiency, kind of loss, and caveats."""

import itertools
import math
from collections.abc import Iterator, Sequence

import pandas as pd

from hvdprof import units
from hvdprof.analyze.scaling.efficiency import efficiency_at
from hvdprof.model.arrays import FrameRow
from hvdprof.model.file_page import FileVerdict

GROWTH = 1.5
"""A serial fraction that grows or shrinks by this factor from first to last size has a trend."""

SMALL_FRACTION = 0.001
LARGE_DROP = 0.1


def scaling_verdicts(scaling: pd.DataFrame) -> tuple[FileVerdict, ...]:
    """A verdict per series: efficiency at its largest size, the kind of loss, what is odd.

    Args:
        scaling: THROUGHPUT_SCALING.
    """
    return tuple(
        _verdict(str(series), members.sort_values("np").to_dict("records"))
        for series, members in scaling.groupby("series", observed=True, sort=False)
    )


def _verdict(series: str, rows: Sequence[FrameRow]) -> FileVerdict:
    last, base = rows[-1], rows[0]
    lead = f"{series}: " if series else ""
    if last["baseline_np"] is pd.NA:
        return FileVerdict(f"{lead}One number of ranks alone: no scaling to judge.")
    reached = units.percent_interval(
        last["efficiency"], last["efficiency_low"], last["efficiency_high"]
    )
    number = (
        f"{lead}{reached} scaling efficiency on {units.count(last['np'])} ranks against "
        f"np={base['np']} (speed-up {_speedup(last)} of "
        f"{units.rate(last['np'] / base['np'])})."
    )
    loss = _kind_of_loss(rows)
    return FileVerdict(f"{number} {loss}" if loss else number, " ".join(_caveats(rows)))


def _kind_of_loss(rows: Sequence[FrameRow]) -> str:
    if rows[-1]["efficiency_low"] < 1 <= rows[-1]["efficiency_high"]:
        return "The 95 % CI includes 100 %: no certain loss."
    ends = ("karp_flatt", "karp_flatt_low", "karp_flatt_high")
    fractions = [row["karp_flatt"] for row in rows[1:]]
    first, last = fractions[0], fractions[-1]
    if not last > 0 or math.isnan(last):
        return ""
    if last > 1:
        return "The serial fraction (Karp-Flatt) is not meaningful above 100 %."
    texts = [units.fraction_interval(*(row[name] for name in ends)) for row in rows[1:]]
    fraction = f"The serial fraction (Karp-Flatt) is {texts[-1]}"
    if len(fractions) < 2 or not 0 < first <= 1:
        return f"{fraction}."
    if max(first, last) < SMALL_FRACTION:
        return f"{fraction}, which is negligible."
    before = f"{texts[0]} at np={rows[1]['np']}"
    if max(first, last) > GROWTH * min(first, last) and _overlap(rows[1], rows[-1]):
        return f"{fraction}, and {before}: the intervals overlap, so no trend is certain."
    if last > GROWTH * first:
        return (
            f"{fraction}, up from {before}: overhead that grows with the job, such as "
            "communication."
        )
    peak = max(rows, key=_total)
    has_peaked = _end(rows[-1], "high") * rows[-1]["np"] < _total(peak)
    if has_peaked or (last >= first / GROWTH and _varies(rows[1:])):
        sizes = ", ".join(str(row["np"]) for row in rows[1:])
        peaked = f" The throughput peaks at np={peak['np']}." if has_peaked else ""
        return (
            f"The serial fraction (Karp-Flatt) is {', '.join(texts)} at np={sizes}: not constant, "
            f"so it predicts no larger size.{peaked}"
        )
    if last < first / GROWTH:
        return (
            f"{fraction}, down from {before}: a loss there from the first step up, such as leaving "
            "one host or one GPU."
        )
    return f"{fraction}, similar at every size: {_twice_as_many(rows[0], rows[-1])}"


def _varies(rows: Sequence[FrameRow]) -> bool:
    """Whether the fraction of a size differs from that of another beyond their intervals."""
    lowest, highest = (pick(rows, key=lambda row: row["karp_flatt"]) for pick in (min, max))
    is_apart = highest["karp_flatt"] > GROWTH * lowest["karp_flatt"]
    return bool(is_apart) and not _overlap(lowest, highest)


def _total(row: FrameRow) -> float:
    """The throughput of all ranks, in multiples of one rank's of the baseline."""
    return float(row["efficiency"] * row["np"])


def _twice_as_many(base: FrameRow, last: FrameRow) -> str:
    """What twice the ranks reach by Amdahl's law; the interval is that of the fraction."""
    size = 2 * last["np"]
    scale = size / base["np"]
    low, high = last["karp_flatt_high"], last["karp_flatt_low"]
    reached = units.percent_interval(
        efficiency_at(last["karp_flatt"], scale),
        efficiency_at(low, scale),
        efficiency_at(max(high, 0.0), scale) if high == high else high,
    )
    without = " (no interval: no repeats)" if math.isnan(low) else ""
    return f"with such a serial part {units.count(size)} ranks reach {reached}{without}."


def _overlap(first: FrameRow, last: FrameRow) -> bool:
    """Whether the intervals of two fractions overlap; without intervals they do not."""
    higher, lower = sorted((first, last), key=lambda row: -row["karp_flatt"])
    return bool(higher["karp_flatt_low"] <= lower["karp_flatt_high"])


def _speedup(row: FrameRow) -> str:
    return units.rate_interval(row["speedup"], row["speedup_low"], row["speedup_high"])


def _caveats(rows: Sequence[FrameRow]) -> Iterator[str]:
    above = [str(row["np"]) for row in rows[1:] if _end(row, "low") > 1]
    if above:
        yield (
            f"Above 100 % at np={', '.join(above)}: caches that fit better, or a slow baseline. "
            "Repeat the baseline."
        )
    steps = list(itertools.pairwise(rows))
    for before, after in steps:
        if _end(after, "high") * after["np"] < _total(before):
            yield f"np={after['np']} is slower than np={before['np']} in total."
    before, after = min(steps, key=lambda pair: pair[1]["efficiency"] - pair[0]["efficiency"])
    lost = after["efficiency"] - before["efficiency"]
    if len(steps) > 1 and lost < -LARGE_DROP:
        yield (
            f"The largest drop is from np={before['np']} to np={after['np']} "
            f"({units.points(lost)}). Check what changes there."
        )
    if max(row["num_repeats"] for row in rows) == 1:
        if math.isnan(rows[-1]["efficiency_low"]):
            yield "Uncertainty unknown (no repeats)."
        else:
            yield "The 95 % CI holds within these launches; other launches can differ (no repeats)."


def _end(row: FrameRow, end: str) -> float:
    """An end of the interval of an efficiency; the efficiency itself where it has none."""
    known = float(row[f"efficiency_{end}"])
    return float(row["efficiency"]) if math.isnan(known) else known
