"""Lines of code that take longer in some samples than in others, beyond chance.

Tested in ``tests/analyze/lines/test_line_causes.py``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.lines.line_statistics import chance_of_excess, difference_ends
from hvdprof.analyze.lines.line_times import LINE, by_line
from hvdprof.analyze.stats.change_point import holm
from hvdprof.analyze.stats.uncertainty import NAN, wilson
from hvdprof.model.arrays import Float64s
from hvdprof.model.tables.line_tables import LEAST_SAMPLES

CHANCE = 0.01
"""The chance that any line of a contrast is named although none takes longer, at most."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Some samples: rows of LINE_SAMPLES, of LINE_SAMPLING, and steps, added over the ranks.

    ``exposure`` is what a line of 1 ns per step yields: steps by samples per ns, of all phases.
    """

    lines: pd.DataFrame
    whole: pd.DataFrame
    steps: float
    exposure: float

    def times(self, counts: Float64s) -> tuple[Float64s, Float64s, Float64s]:
        """Times per step of lines with so many samples, ns, with the ends of the intervals."""
        num = max(float(self.whole["samples"].sum()), 1.0)
        whole = float(self.whole["time_ns"].sum()) / max(self.steps, 1.0)
        low, high = wilson(counts / num, np.full(len(counts), num))
        return counts / num * whole, low * whole, high * whole


def longer_lines(own: Samples, other: Samples) -> pd.DataFrame:
    """The lines that take longer per step in ``own``, largest excess first.

    Columns are those of a line, ``samples``, ``mean_ns`` (the time per step in ``own``), and
    ``excess_ns`` with ``_low`` and ``_high``. Lines with fewer than five samples in both together
    are not tested, which does not depend on where they are; those with fewer in ``own`` are not
    named.

    Args:
        own: The samples in which lines may take longer.
        other: What they are held against.
    """
    lines = by_line(own.lines, [])
    against = by_line(other.lines, [])[[*LINE, "samples"]]
    lines = lines.merge(against, on=LINE, how="left", suffixes=("", "_other"))
    counts = lines["samples"].to_numpy(dtype=np.float64)
    others = lines["samples_other"].fillna(0).to_numpy(dtype=np.float64)
    first, second = own.times(counts), other.times(others)
    low, high = difference_ends(first, second)
    lines = lines.assign(
        mean_ns=first[0],
        excess_ns=first[0] - second[0],
        excess_low_ns=low,
        excess_high_ns=high,
        other=others,
    )
    lines = lines[counts + others >= LEAST_SAMPLES]
    ends = own.exposure, other.exposure
    chances = holm(
        [
            chance_of_excess(int(count), int(beside), *ends)
            for count, beside in zip(lines["samples"], lines["other"], strict=True)
        ]
    )
    is_named = (np.array(chances) <= CHANCE) & (lines["excess_low_ns"] > 0).to_numpy()
    named: pd.DataFrame = lines[is_named & (lines["samples"] >= LEAST_SAMPLES).to_numpy()]
    return named.sort_values("excess_ns", ascending=False, kind="stable")


def lines_alone(own: Samples) -> pd.DataFrame:
    """The lines with their times per step, ns, held against nothing; five samples at least."""
    lines = by_line(own.lines, [])
    times = own.times(lines["samples"].to_numpy(dtype=np.float64))
    names = ("excess_ns", "excess_low_ns", "excess_high_ns")
    lines = lines.assign(**dict(zip(names, times, strict=True)))
    lines = lines[(lines["samples"] >= LEAST_SAMPLES).to_numpy()]
    return lines.sort_values("samples", ascending=False, kind="stable")


def on_every_rank(lines: pd.DataFrame, own: Samples, members: Iterable[int]) -> pd.DataFrame:
    """Those of some lines that each rank has, with the numbers of the rank that has least of them.

    ``excess_ns`` with its ends is the time per step on that rank, ns, and ``share`` its share of
    the samples there. Each rank has five samples of the line at least.

    Args:
        lines: Lines of ``own``.
        own: The samples of all ranks, each with as many steps.
        members: The ranks, also those without a sample in ``own``.
    """
    if lines.empty:
        return lines.assign(share=NAN)
    ranks = own.whole.groupby("rank")[["samples", "time_ns"]].sum()
    ranks = ranks.reindex(sorted(members), fill_value=0)
    counts = own.lines.pivot_table("samples", LINE, "rank", aggfunc="sum", fill_value=0)
    counts = counts.reindex(columns=ranks.index, fill_value=0)
    counts = counts.reindex(pd.MultiIndex.from_frame(lines[LINE]), fill_value=0)
    num = np.maximum(ranks["samples"].to_numpy(dtype=np.float64), 1.0)
    shares = counts.to_numpy(dtype=np.float64) / num
    per_step = ranks["time_ns"].to_numpy() * len(ranks) / max(own.steps, 1.0)
    least = (shares * per_step).argmin(axis=1)
    share = np.take_along_axis(shares, least[:, None], axis=1)[:, 0]
    low, high = wilson(share, num[least])
    found = lines.assign(
        share=share,
        excess_ns=share * per_step[least],
        excess_low_ns=low * per_step[least],
        excess_high_ns=high * per_step[least],
    )
    on_all = counts.to_numpy().min(axis=1) >= LEAST_SAMPLES
    return pd.DataFrame(found[on_all])
