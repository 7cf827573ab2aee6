"""Which parts of the step moved between two runs, and which rank alone."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from hvdprof.analyze.compare.cell_launches import (
    CellLaunches,
    ReadTimes,
    are_pairs,
    cell_launches,
)
from hvdprof.analyze.compare.cell_terms import Term, cell_terms
from hvdprof.analyze.compare.outcomes import chance_of, change_of
from hvdprof.analyze.compare.rank_changes import RankChange, rank_changes, usual_times
from hvdprof.analyze.compare.sides import CellKey, SideCell
from hvdprof.analyze.ranks.named_cause import FOR_A_WHILE, FROM_STEP, GROWING
from hvdprof.analyze.stats.change_point import holm
from hvdprof.analyze.stats.uncertainty import NAN, Interval, Spread, less, spread
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.tables.comparison_tables import MOVED_CAUSES
from hvdprof.rundir.plan import TORCH_ENGINE


def moved_causes(
    read_times: tuple[ReadTimes, ReadTimes],
    pairs: Sequence[tuple[SideCell, SideCell]],
    *,
    is_paired: bool,
    level: float,
) -> pd.DataFrame:
    """MOVED_CAUSES of the given cells: their terms, largest difference first.

    1.  Ranks whose own time in a phase changed alone (``rank_changes``) are named, whether either
        run alone shows them as stragglers or not. What the replayed step loses when the change is
        taken out of the run in which the rank takes longer is their term.
    2.  What is left has the same terms in both runs (``cell_terms``), tested over the launches:
        Student t, of pairs where the launches are pairs, Holm over the terms of a cell.

    Rows of a cell sum to the difference of the step times. Plain torch, and cells without recorded
    steps, have none.

    Args:
        read_times: Gives the own times of launches of the first and of the second run.
        pairs: The cells that are compared.
        is_paired: Whether the repeats of both runs are pairs.
        level: Accepted probability that any term of a cell is called moved without a change.
    """
    own = [pair for pair in pairs if pair[0].key[CELL_KEY.index("engine")] != TORCH_ENGINE]
    times = [
        read([key for pair in own for key in pair[side].repeat_of])
        for side, read in enumerate(read_times)
    ]
    frames = []
    for pair in own:
        first, second = (cell_launches(cell, one) for cell, one in zip(pair, times, strict=True))
        if first is not None and second is not None and first.is_alike(second):
            pairing = is_paired and are_pairs(first, second)
            frames.append(_of_cell(pair[0].key, first, second, is_paired=pairing, level=level))
    return MOVED_CAUSES.frame(pd.concat(frames)) if frames else MOVED_CAUSES.empty()


def found_changes(
    first: CellLaunches, second: CellLaunches, *, is_paired: bool, level: float
) -> tuple[RankChange, ...]:
    """The ranks of a cell that changed alone, without those that are slow from a step on.

    The latter are named causes with a beginning, and their mean over a launch means little.

    Args:
        first: The launches of the first run.
        second: Those of the second run.
        is_paired: Whether the repeats of both are pairs.
        level: Accepted probability that any rank is named without a change.
    """
    changes = rank_changes(
        [usual_times(*launch) for launch in zip(first.times, first.named, strict=True)],
        [usual_times(*launch) for launch in zip(second.times, second.named, strict=True)],
        is_paired=is_paired,
        step_ns=first.step_ns,
        level=level,
    )
    late = {
        rank
        for side in (first, second)
        for cause in side.causes
        if cause.pattern in (FROM_STEP, FOR_A_WHILE, GROWING)
        for member in cause.every
        for rank in member.ranks
    }
    return tuple(
        change for change in changes if int(first.times[0].ranks[change.place]) not in late
    )


def _of_cell(
    key: CellKey, first: CellLaunches, second: CellLaunches, *, is_paired: bool, level: float
) -> pd.DataFrame:
    changes = found_changes(first, second, is_paired=is_paired, level=level)
    terms = cell_terms(first, second, changes)
    tested = [_change(term, is_paired=is_paired) for term in terms]
    chances = holm([chance_of(change, first.step_ns) for change in tested])
    rows = []
    for term, change, chance in zip(terms, tested, chances, strict=True):
        one_ns, other_ns = term.first.mean() * first.scale, term.second.mean() * second.scale
        rows.append(
            {
                **dict(zip(CELL_KEY, key, strict=True)),
                "term": term.term,
                "ranks": term.ranks,
                "phase": term.phase,
                "pattern": term.pattern,
                "one_ns": one_ns,
                "other_ns": other_ns,
                **_difference(replace(change, value=float(other_ns - one_ns)).interval()),
                "moved": chance <= level,
                **_own_change(term),
            }
        )
    rows.sort(key=lambda row: -abs(float(row["difference_ns"])))
    return MOVED_CAUSES.frame(rows)


def _change(term: Term, *, is_paired: bool) -> Spread:
    """The change of a term; the cost of a rank's change is as uncertain as that change, too."""
    if term.change is None:
        return change_of(term.first, term.second, is_paired=is_paired)
    cost = spread((term.second - term.first).tolist())
    own = term.change.change
    slope = cost.value / own.value
    return less(cost, Spread(0.0, slope**2 * own.variance, own.degrees))


def _difference(interval: Interval) -> dict[str, float | bool]:
    return {
        "difference_ns": interval.value,
        "low_ns": interval.low,
        "high_ns": interval.high,
        # A comparison with NaN is false: an unknown interval is never significant.
        "significant": interval.low > 0 or interval.high < 0,
    }


def _own_change(term: Term) -> dict[str, float]:
    own = Interval(NAN, NAN, NAN) if term.change is None else term.change.change.interval()
    return {
        "own_change_ns": own.value,
        "own_change_low_ns": own.low,
        "own_change_high_ns": own.high,
    }
