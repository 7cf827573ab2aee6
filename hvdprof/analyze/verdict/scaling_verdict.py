"""What a table of somebody's throughputs comes down to, in sentences."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from hvdprof import units
from hvdprof.analyze.scaling.karp_flatt import efficiency_at

GROWTH = 1.5
"""A serial fraction that grows or shrinks by this factor from first to last size has a trend."""

SMALL_FRACTION = 0.001
LARGE_DROP = 0.1


def scaling_sentences(scaling: pd.DataFrame) -> tuple[str, ...]:
    """One text a series: efficiency at its largest size, what the loss looks like, what is odd.

    Args:
        scaling: THROUGHPUT_SCALING.
    """
    return tuple(
        " ".join(_sentences(str(series), members))
        for series, members in scaling.groupby("series", observed=True, sort=False)
    )


def _sentences(series: str, members: pd.DataFrame) -> Iterator[str]:
    rows = members.sort_values("np").to_dict("records")
    last, base = rows[-1], rows[0]
    lead = f"{series}: " if series else ""
    if pd.isna(last["baseline_np"]):
        yield f"{lead}one size alone, so there is no scaling to judge."
        return
    reached = units.percent_interval(
        last["efficiency"], last["efficiency_low"], last["efficiency_high"]
    )
    yield (
        f"{lead}{reached} scaling efficiency on {units.count(last['np'])} ranks against "
        f"np={base['np']}, a speed-up of {units.rate(last['speedup'])} of "
        f"{units.rate(last['np'] / base['np'])}."
    )
    yield from _kind_of_loss(rows)
    yield from _oddities(rows)
    if max(row["num_repeats"] for row in rows) == 1:
        yield "These are single numbers: without repeats nobody knows how sure they are."


def _kind_of_loss(rows: Sequence[Mapping[Any, Any]]) -> Iterator[str]:
    if rows[-1]["efficiency_low"] < 1 <= rows[-1]["efficiency_high"]:
        yield "That is within its uncertainty of no loss at all."
        return
    fractions = [row["karp_flatt"] for row in rows[1:]]
    first, last = fractions[0], fractions[-1]
    if not last > 0 or math.isnan(last):
        return
    told = f"Its serial fraction (Karp-Flatt) is {units.percent(last, 2)}"
    if len(fractions) < 2 or not first > 0:
        yield f"{told}."
    elif max(first, last) < SMALL_FRACTION:
        yield f"{told}, which is next to nothing."
    elif last > GROWTH * first:
        yield (
            f"{told}, up from {units.percent(first, 2)} at np={rows[1]['np']}: overhead that grows "
            "with the job, such as communication, rather than a serial part."
        )
    elif last < first / GROWTH:
        yield (
            f"{told}, down from {units.percent(first, 2)} at np={rows[1]['np']}: a loss that is "
            "there from the first step up and hardly grows, such as leaving one host or one GPU."
        )
    else:
        scale = 2 * rows[-1]["np"] / rows[0]["np"]
        yield (
            f"{told}, much the same at every size: a part that more ranks do not share. If it "
            f"stays, {units.count(2 * rows[-1]['np'])} ranks reach "
            f"{units.percent(efficiency_at(last, scale))}."
        )


def _end(row: Mapping[Any, Any], end: str) -> float:
    """An end of the interval of an efficiency; the efficiency itself where it has none."""
    known = float(row[f"efficiency_{end}"])
    return float(row["efficiency"]) if math.isnan(known) else known


def _oddities(rows: Sequence[Mapping[Any, Any]]) -> Iterator[str]:
    above = [str(row["np"]) for row in rows[1:] if _end(row, "low") > 1]
    if above:
        yield (
            f"Above 100 % at np={', '.join(above)}: caches that fit better, or a baseline that was "
            "measured badly; repeat the baseline."
        )
    steps = list(itertools.pairwise(rows))
    for before, after in steps:
        if _end(after, "high") * after["np"] < before["efficiency"] * before["np"]:
            yield f"np={after['np']} is slower than np={before['np']}: more ranks do less in all."
    before, after = min(steps, key=lambda pair: pair[1]["efficiency"] - pair[0]["efficiency"])
    lost = after["efficiency"] - before["efficiency"]
    if len(steps) > 1 and lost < -LARGE_DROP:
        yield (
            f"The largest drop is from np={before['np']} to np={after['np']} "
            f"({units.points(lost)}): see what changes there."
        )
