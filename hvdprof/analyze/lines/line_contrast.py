"""Lines of code that take longer in some samples than in others, beyond chance."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from hvdprof.analyze.lines.line_times import (
    LINE,
    WINDOW,
    SampledLines,
    Times,
    by_line,
    chance_of_excess,
    difference_ends,
    times_of_lines,
)
from hvdprof.analyze.stats.change_point import holm
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.arrays import Bools, Float64s
from hvdprof.model.tables.line_tables import LEAST_SAMPLES
from hvdprof.rundir.recording.line_format import BLOCKED_PHASE, MAIN_PROCESS

CHANCE = 0.01
"""The chance that any line of a contrast is named although none takes longer, at most."""

DELAYS = 2.0
"""Mean delays of samples that an excess exceeds where the line is named."""

_EXCESS = ("excess_ns", "excess_low_ns", "excess_high_ns")


@dataclass(frozen=True, slots=True)
class Samples:
    """Some samples: rows of LINE_SAMPLES, of LINE_SAMPLING, and steps, added over the ranks.

    ``exposure`` is what a line of 1 ns per step yields: steps by samples per ns, of all phases.
    """

    lines: pd.DataFrame
    whole: pd.DataFrame
    steps: float
    exposure: float

    @property
    def delay_ns(self) -> float:
        """By how much a sample came later than intended, mean, ns."""
        number = float(self.whole["samples"].sum())
        return float(self.whole["late_ns"].sum()) / number if number else 0.0

    def times(self, counts: Float64s) -> Times:
        """Times per step of lines with so many samples, ns, with the ends of the intervals."""
        whole = float(self.whole["time_ns"].sum()) / max(self.steps, 1.0)
        return times_of_lines(counts, float(self.whole["samples"].sum()), whole)


@dataclass(frozen=True)
class CellSamples:
    """A cell with its samples: what it explains its causes from.

    ``launches`` are the names of its own, ``baseline`` those that it is held against.
    """

    sampled: SampledLines
    launches: frozenset[str]
    baseline: frozenset[str]

    @cached_property
    def ranks(self) -> frozenset[int]:
        """The ranks that were sampled."""
        whole = self.sampled.whole
        return frozenset(whole.loc[whole["launch"].isin(self.launches), "rank"].tolist())

    def samples(
        self,
        launches: frozenset[str],
        ranks: Sequence[int] | frozenset[int] = (),
        phases: Sequence[str] = (),
        *,
        process: str = MAIN_PROCESS,
        inside: Callable[[pd.DataFrame], Bools] | None = None,
    ) -> Samples:
        """The samples of launches: of some ranks and phases, or all; ``inside`` some windows."""

        def chosen(table: pd.DataFrame, of_process: str) -> pd.DataFrame:
            own = table["launch"].isin(launches) & (table["process"] == of_process)
            if ranks:
                own &= table["rank"].isin(list(ranks))
            rows = table[own.to_numpy()]
            return rows if inside is None else rows[inside(rows)]

        lines, whole = (
            chosen(table, process) for table in (self.sampled.lines, self.sampled.whole)
        )
        main = whole if process == MAIN_PROCESS else chosen(self.sampled.whole, MAIN_PROCESS)
        steps = float(main.drop_duplicates(WINDOW)["steps"].sum())
        sampled_ns = float(whole["sampled_ns"].sum())
        rate = float(whole["samples"].sum()) / sampled_ns if sampled_ns else 0.0
        lines, whole = (
            part[part["phase"].isin(phases) if phases else part["phase"] != BLOCKED_PHASE]
            for part in (lines, whole)
        )
        return Samples(lines, whole, steps, steps * rate)


def longer_lines(own: Samples, other: Samples) -> pd.DataFrame:
    """The lines that take longer per step in ``own``, largest excess first.

    Columns are those of a line, ``samples``, ``mean_ns`` (the time per step in ``own``), and
    ``excess_ns`` with ``_low`` and ``_high``. Lines with fewer than five samples in both together
    are not tested, which does not depend on where they are; those with fewer in ``own`` are not
    named. Neither is an excess below ``DELAYS`` mean delays of the samples: a sample waits until
    the training thread yields the interpreter's lock, up to 5 ms in a loop of Python code, and
    then shows the line behind a shorter one.

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
    excess = first[0] - second[0], *difference_ends(first, second)
    lines = lines.assign(mean_ns=first[0], other=others, **dict(zip(_EXCESS, excess, strict=True)))
    lines = lines[counts + others >= LEAST_SAMPLES]
    ends = own.exposure, other.exposure
    chances = holm(
        [
            chance_of_excess(int(count), int(beside), *ends)
            for count, beside in zip(lines["samples"], lines["other"], strict=True)
        ]
    )
    is_named = (np.array(chances) <= CHANCE) & (lines["excess_low_ns"] > 0).to_numpy()
    is_named &= (lines["excess_ns"] >= DELAYS * own.delay_ns).to_numpy()
    named: pd.DataFrame = lines[is_named & (lines["samples"] >= LEAST_SAMPLES).to_numpy()]
    return named.sort_values("excess_ns", ascending=False, kind="stable")


def lines_alone(own: Samples) -> pd.DataFrame:
    """The lines with their times per step, ns, held against nothing; five samples at least."""
    lines = by_line(own.lines, [])
    times = own.times(lines["samples"].to_numpy(dtype=np.float64))
    lines = lines.assign(**dict(zip(_EXCESS, times, strict=True)))
    lines = lines[(lines["samples"] >= LEAST_SAMPLES).to_numpy()]
    return lines.sort_values("samples", ascending=False, kind="stable")


def on_every_rank(lines: pd.DataFrame, own: Samples, members: Iterable[int]) -> pd.DataFrame:
    """Those of some lines that each rank has, with the numbers of the rank that has least of them.

    ``excess_ns`` with its ends is the time per step on that rank, ns, and ``share`` its share of
    the samples there. Each rank has five samples of the line at least. Where times are not known
    they are NaN, and the rank is that with the least share.

    Args:
        lines: Lines of ``own``.
        own: The samples of all ranks, each with as many steps; its times may be NaN.
        members: The ranks, also those without a sample in ``own``.
    """
    if lines.empty:
        return lines.assign(share=NAN)
    ranks = own.whole.groupby("rank")[["samples", "time_ns"]].sum(min_count=1)
    ranks = ranks.reindex(sorted(members), fill_value=0)
    counts = own.lines.pivot_table("samples", LINE, "rank", aggfunc="sum", fill_value=0)
    counts = counts.reindex(columns=ranks.index, fill_value=0)
    counts = counts.reindex(pd.MultiIndex.from_frame(lines[LINE]), fill_value=0)
    num = np.maximum(ranks["samples"].to_numpy(dtype=np.float64), 1.0)
    shares = counts.to_numpy(dtype=np.float64) / num
    per_step = ranks["time_ns"].to_numpy() * len(ranks) / max(own.steps, 1.0)
    least = (shares * (1.0 if np.isnan(per_step).any() else per_step)).argmin(axis=1)
    share = np.take_along_axis(shares, least[:, None], axis=1)[:, 0]
    times = times_of_lines(share * num[least], num[least], per_step[least])
    found = lines.assign(share=share, **dict(zip(_EXCESS, times, strict=True)))
    on_all = counts.to_numpy().min(axis=1) >= LEAST_SAMPLES
    return pd.DataFrame(found[on_all])
