"""Steps of a pass with the own work of every rank in them: bands, extremes, and kinds of steps."""

import warnings
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.figures.timeline.viewport import Ints
from hvdprof.model.run import Run
from hvdprof.model.tables.timeline_tables import INFERRED_STEPS

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

QUANTILES: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Edges of the outer band, the inner band, and the median between them."""

NUM_EXTREMES = 3
"""So many of the slowest and of the fastest ranks are drawn where many are folded."""

STRAGGLER_SHARE = 0.1
LONG_STEP = 1.5

_MOST_LISTED = 200


class StepKind(StrEnum):
    """Kinds of steps that one goes through."""

    LONGEST = "longest"
    STRAGGLER = "straggler"
    STALL = "stall"
    WARMUP = "warmup"


STEP_KINDS: dict[StepKind, str] = {
    StepKind.LONGEST: "Longest steps",
    StepKind.STRAGGLER: "Steps with a straggler",
    StepKind.STALL: "Steps with a stall",
    StepKind.WARMUP: "Warm-up steps",
}
"""What each kind is called."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Steps in order of time, over all ranks.

    ``segment`` numbers ``segments``. ``own_ns`` [steps, ranks] is the time in which a rank is not
    blocked, NaN where it recorded no such step; without ranks (steps inferred from a timeline) it
    has no columns. ``ranks`` are the numbers of its columns. ``blocked_ns`` is the blocked time of
    a step summed over the ranks, of ``spent_ns`` in which they recorded any; both 0 where unknown.
    ``excess_ns`` is the own work of the slowest rank minus the median of the others, NaN without
    others.
    """

    number: Ints
    segment: Ints
    segments: tuple[str, ...]
    start_ns: Ints
    end_ns: Ints
    is_warmup: Bools
    own_ns: Floats
    ranks: Ints
    blocked_ns: Ints
    spent_ns: Ints
    excess_ns: Floats
    slowest: Ints
    has_straggler: Bools
    has_stall: Bools

    @property
    def length_ns(self) -> Ints:
        """From the first start to the last end of each step."""
        length: Ints = self.end_ns - self.start_ns
        return length

    def of_kind(self, kind: StepKind) -> Ints:
        """Places of the steps of a kind in order of time; the longest in order of length."""
        if kind is StepKind.LONGEST:
            steady = np.flatnonzero(~self.is_warmup)
            order = np.argsort(self.length_ns[steady], kind="stable")[::-1]
            places: Ints = steady[order][:_MOST_LISTED]
            return places
        flags = {
            StepKind.STRAGGLER: self.has_straggler,
            StepKind.STALL: self.has_stall,
            StepKind.WARMUP: self.is_warmup,
        }[kind]
        found: Ints = np.flatnonzero(flags)
        return found

    def bands(self, ranks: Ints, places: Ints) -> Floats:
        """Quantiles of own work over those ranks in those steps, ns: [steps, len(QUANTILES)]."""
        own = self.own_ns[places][:, np.isin(self.ranks, ranks)]
        if not own.size:
            return np.full((own.shape[0], len(QUANTILES)), np.nan)
        if not np.isnan(own).any():
            whole: Floats = np.quantile(own, QUANTILES, axis=1).T
            return whole
        with warnings.catch_warnings():
            # A step that no rank of the group has recorded.
            warnings.simplefilter("ignore", RuntimeWarning)
            partly: Floats = np.nanquantile(own, QUANTILES, axis=1).T
        return partly

    def extremes(self, ranks: Ints) -> list[tuple[int, str]]:
        """The three slowest of the ranks, the median one and the three fastest, each with a word.

        By the mean of their own work over the steady steps; none of fewer than seven ranks.
        """
        columns = np.flatnonzero(np.isin(self.ranks, ranks))
        own = self.own_ns[~self.is_warmup][:, columns]
        with warnings.catch_warnings():
            # A rank that has left before the first steady step.
            warnings.simplefilter("ignore", RuntimeWarning)
            means = np.nanmean(own, axis=0) if own.shape[0] else np.empty(0)
        known = columns[~np.isnan(means)] if len(means) else columns[:0]
        if len(known) < 2 * NUM_EXTREMES + 1:
            return []
        order = known[np.argsort(-means[~np.isnan(means)], kind="stable")]
        median = [len(order) // 2]
        words = {"slow": range(NUM_EXTREMES), "median": median}
        words["fast"] = range(len(order) - NUM_EXTREMES, len(order))
        return [
            (int(self.ranks[order[at]]), word) for word, places in words.items() for at in places
        ]


def step_times(run: Run, pass_id: str) -> StepTimes:
    """The steps of a pass; those inferred from the timeline where no rank recorded any."""
    recorded = len(run.steps) > 0
    table = run.steps if recorded else run.table(INFERRED_STEPS.name)
    rows = table[(table["pass_id"] == pass_id).to_numpy(dtype=bool)]
    code, names = pd.factorize(rows["segment"].astype("object"))
    number = rows["step"].to_numpy(np.int64)
    start = rows["start_ns"].to_numpy(np.int64)
    length = rows["dur_ns"].fillna(0).to_numpy(np.int64)
    most = int(number.max()) + 2 if len(number) else 1
    keys, place = np.unique(code.astype(np.int64) * most + number, return_inverse=True)
    first = np.full(len(keys), np.iinfo(np.int64).max)
    last = np.full(len(keys), np.iinfo(np.int64).min)
    np.minimum.at(first, place, start)
    np.maximum.at(last, place, start + length)
    is_warmup = np.zeros(len(keys), bool)
    ranks = np.empty(0, np.int64)
    own = np.empty((len(keys), 0))
    blocked_ns, spent_ns = np.zeros((2, len(keys)), np.int64)
    if recorded and len(rows):
        np.logical_or.at(is_warmup, place, rows["warmup"].to_numpy(bool))
        ranks, column = np.unique(rows["rank"].to_numpy(np.int64), return_inverse=True)
        own = np.full((len(keys), len(ranks)), np.nan)
        blocked = rows["blocked_ns"].fillna(0).to_numpy(np.int64)
        own[place, column] = length - blocked
        np.add.at(blocked_ns, place, blocked)
        np.add.at(spent_ns, place, length * rows["blocked_ns"].notna().to_numpy(bool))
    order = np.argsort(first, kind="stable")
    length_ns, is_warmup, segment = (last - first)[order], is_warmup[order], (keys // most)[order]
    own = own[order]
    excess = _excess(own)
    usual = _usual_length(segment, length_ns, is_warmup)
    return StepTimes(
        number=(keys % most)[order],
        segment=segment,
        segments=tuple(map(str, names)),
        start_ns=first[order],
        end_ns=last[order],
        is_warmup=is_warmup,
        own_ns=own,
        ranks=ranks,
        blocked_ns=blocked_ns[order],
        spent_ns=spent_ns[order],
        excess_ns=excess,
        slowest=_slowest(own, ranks),
        has_straggler=np.nan_to_num(excess) > STRAGGLER_SHARE * usual,
        has_stall=(length_ns > LONG_STEP * usual) & ~is_warmup,
    )


def _slowest(own: Floats, ranks: Ints) -> Ints:
    if own.shape[1] < 2:
        return np.full(len(own), -1, dtype=np.int64)
    slowest: Ints = ranks[np.where(np.isnan(own), -np.inf, own).argmax(axis=1)].astype(np.int64)
    return slowest


def _excess(own: Floats) -> Floats:
    """Own work of the slowest rank minus the median of the others, ns."""
    if own.shape[1] < 2:
        return np.full(len(own), np.nan)
    ordered = np.sort(own, axis=1)
    known = (~np.isnan(ordered)).sum(axis=1)
    last = np.take_along_axis(ordered, np.maximum(known - 1, 0)[:, None], axis=1)[:, 0]
    # NaN sorts last: the others of a step are its first ``known - 1`` values.
    others = np.maximum(known - 1, 1)
    low = np.take_along_axis(ordered, ((others - 1) // 2)[:, None], axis=1)[:, 0]
    high = np.take_along_axis(ordered, (others // 2)[:, None], axis=1)[:, 0]
    excess: Floats = np.where(known > 1, last - (low + high) / 2, np.nan)
    return excess


def _usual_length(segment: Ints, length_ns: Ints, is_warmup: Bools) -> Floats:
    """The median steady step of the segment of each step; of all its steps without any."""
    usual = np.zeros(len(segment))
    for number in np.unique(segment):
        own = segment == number
        steady = own & ~is_warmup
        usual[own] = np.median(length_ns[steady if steady.any() else own])
    return usual
