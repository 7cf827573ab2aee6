"""Each rank's phases against the other ranks: the strip that shows which rank is slow, and where.

The time of a phase minus the median of the other ranks. Unlike the wait, which all other ranks
share, it points at the rank itself. It is no cost: other phases offset a part of it, and so does
what hides behind the communication. The sentence has both, or readers compare it with the verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import Float64s, FrameRow
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import SHARED_PHASES, STRAGGLER
from hvdprof.model.cell_key import LAUNCH, of_base_cell
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.waiting_tables import RANK_COSTS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.screen.rank_bars import rows_of_cell
from hvdprof.report.screen.tiles import is_too_busy
from hvdprof.rundir.recording.sample_format import CORE_WAIT

PHASES: dict[str, str] = {
    "data": "data",
    "forward": "forward",
    "backward": "backward",
    "before_update": "before update",
    "optimizer": "optimizer",
    "outside": "outside",
}
"""The phases of the strip by their name in RANK_COSTS."""

_OTHER_PHASES = {"evaluation": "evaluation", "mixed": "not by phase", "all": "all"}

MOST_RANKS = 6
"""Ranks of the strip: those that deviate most."""

_NOTABLE = 0.02
"""A smaller share of the step is not tinted."""

_SMALLEST = 0.001
"""A cost of a smaller share of the step is none."""

_LARGE = 0.05
"""A cost of a larger share would be a finding, if it were beyond chance."""

_DIGITS = 2
"""Significant digits: a mean without an interval supports no more."""


_FULL = 0.2
"""The tint is full from this share of the step on, as for an error."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A phase of a rank against the other ranks.

    Attributes:
        text: ``+40.2 ms``; ``0`` where it is below 2 % of the step.
        tint: From -1 (faster by a fifth of the step) to 1 (slower by as much); 0 for none.
    """

    text: str
    tint: float


@dataclass(frozen=True, slots=True)
class RankPhases:
    """The strip: a row for each rank, a column for each phase.

    Attributes:
        ranks: The ranks, ascending; at most six, those that deviate most.
        rows: By rank, a deviation for each phase of ``PHASES``.
        num_ranks: Number of ranks of the cell.
        sentence: What stands out, with numbers, and what the verdict's causes say that rank costs.
    """

    ranks: tuple[int, ...]
    rows: tuple[tuple[Deviation, ...], ...]
    num_ranks: int
    sentence: str


def rank_phases(analysis: RunAnalysis, cell: FrameRow) -> RankPhases | None:
    """The strip of a cell: mean over its launches; None with fewer than two recorded ranks.

    None, too, where the machine was too busy (another process may have slowed any of the ranks),
    and where nothing says which time of a phase is waiting.

    Args:
        analysis: The finished analysis.
        cell: A row of SCALING; its toggles are ignored.
    """
    if is_too_busy(analysis, cell):
        return None
    key = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    rows = _of_cell(analysis, RANK_COSTS.name, *key)
    later = _later(rows)
    if later is None:
        return None
    outlier = _outlier(later)
    cost = ""
    if outlier is not None:
        causes = of_base_cell(analysis.table(WATERFALL.name), *key)
        is_named = any(outlier.rank in ranks_of(row) for row in causes.to_dict("records"))
        waits = _of_cell(analysis, RANK_MACHINE.name, *key)
        cost = _cost(causes, outlier.rank) if is_named else _unnamed(rows, waits, outlier)
    sentence = f"{_sentence(outlier)} {cost}".rstrip()
    order = np.argsort(-np.abs(later.shares).max(axis=1), kind="stable")[:MOST_RANKS]
    shown = np.sort(order)
    return RankPhases(
        ranks=tuple(later.ranks[place] for place in shown),
        rows=tuple(_row(later, int(place)) for place in shown),
        num_ranks=len(later.ranks),
        sentence=sentence,
    )


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """What each rank costs in each phase: a row for each rank, the costliest first.

    Attributes:
        heads: The phases that are recorded, and ``all`` of them together.
        ranks: The ranks; at most six, those that cost most.
        rows: By rank, a cost for each of ``heads``; its tint is full at a fifth of the step.
        num_ranks: Number of ranks of the launch.
        sentence: The rank and phase that stand out; empty without phases.
    """

    heads: tuple[str, ...]
    ranks: tuple[int, ...]
    rows: tuple[tuple[Deviation, ...], ...]
    num_ranks: int
    sentence: str


def phase_costs(rank_costs: pd.DataFrame) -> PhaseCosts | None:
    """The costs in one launch, or in some of its steps; None with fewer than two ranks."""
    if rank_costs.empty:
        return None
    times, shares = (
        rank_costs.pivot_table(name, "rank", "phase", "sum", observed=True).assign(
            all=lambda table: table.sum(axis=1)
        )
        for name in ("cost_ns", "cost_share")
    )
    heads = PHASES | _OTHER_PHASES
    shown = [name for name in heads if name in times.columns]
    ranks = times["all"].sort_values(ascending=False, kind="stable").index[:MOST_RANKS]
    pairs = (zip(times.loc[rank, shown], shares.loc[rank, shown], strict=True) for rank in ranks)
    return PhaseCosts(
        heads=tuple(heads[name] for name in shown),
        ranks=tuple(int(rank) for rank in ranks),
        rows=tuple(tuple(_cost_of(float(a), float(b)) for a, b in row) for row in pairs),
        num_ranks=len(times),
        sentence=slowest_phase(rank_costs),
    )


def _cost_of(time_ns: float, share: float) -> Deviation:
    # Of a rank that makes up for a part of it, a cost is below 0.
    if share < _SMALLEST:
        return Deviation("0", 0.0)
    tint = min(share / _FULL, 1.0) if share >= _NOTABLE else 0.0
    return Deviation(units.milliseconds(time_ns, _DIGITS), tint)


def slowest_phase(rank_costs: pd.DataFrame) -> str:
    """The rank and phase that stand out in one launch; empty with fewer than two ranks."""
    later = _later(rank_costs)
    return "" if later is None else _sentence(_outlier(later))


@dataclass(frozen=True, slots=True)
class _Later:
    """By how much each rank is later than the others, [ranks, phases], ns and shares of a step."""

    ranks: Sequence[int]
    times_ns: Float64s
    shares: Float64s


def _of_cell(
    analysis: RunAnalysis, table: str, model: str, num_ranks: int, engine: str
) -> pd.DataFrame:
    """The rows of a table that are of the launches of a cell; shares are of their mean step."""
    rows = rows_of_cell(analysis, table, model, num_ranks, engine)
    launches = as_text(analysis.table(LAUNCHES.name), LAUNCH)
    step_ns = launches.merge(rows[list(LAUNCH)].drop_duplicates())["step_time_ns"].mean()
    shares = {"later_share": "later_ns", "cost_share": "cost_ns"}
    return rows.assign(**{name: rows[ns] / step_ns for name, ns in shares.items() if ns in rows})


def _later(rows: pd.DataFrame) -> _Later | None:
    known = rows[rows["phase"].isin(PHASES)]
    if known.empty:
        return None
    times, shares = (
        pd.pivot_table(known, values=name, index="rank", columns="phase", aggfunc="mean")
        .reindex(columns=list(PHASES))
        .fillna(0.0)
        for name in ("later_ns", "later_share")
    )
    ranks = [int(rank) for rank in times.index]
    return _Later(ranks, times.to_numpy(), shares.to_numpy())


def _row(later: _Later, place: int) -> tuple[Deviation, ...]:
    pairs = zip(later.times_ns[place], later.shares[place], strict=True)
    return tuple(_deviation(float(value), float(share)) for value, share in pairs)


def _deviation(value: float, share: float) -> Deviation:
    if abs(share) < _NOTABLE:
        return Deviation("0", 0.0)
    sign = "+" if value > 0 else ""
    return Deviation(
        f"{sign}{units.milliseconds(value, _DIGITS)}", max(-1.0, min(share / _FULL, 1.0))
    )


@dataclass(frozen=True, slots=True)
class _Outlier:
    """The rank that is slowest in a phase, by how many ns and by which share of the step."""

    rank: int
    phase: str
    slower_ns: float
    share: float


def _outlier(later: _Later) -> _Outlier | None:
    row, column = np.unravel_index(int(later.times_ns.argmax()), later.times_ns.shape)
    share = float(later.shares[row, column])
    if share < _NOTABLE:
        return None
    phase = list(PHASES.values())[int(column)]
    return _Outlier(later.ranks[int(row)], phase, float(later.times_ns[row, column]), share)


_PLACES = {"outside": "outside all phases", "before update": "before the update"}


def _sentence(outlier: _Outlier | None) -> str:
    if outlier is None:
        return "No rank differs by 2 % of the step or more in any phase."
    place = _PLACES.get(outlier.phase, f"in {outlier.phase}")
    slower = units.milliseconds(outlier.slower_ns, _DIGITS)
    share = units.percent(outlier.share, 0)
    return f"Rank {outlier.rank} is slower by {slower} {place} ({share} of the mean step)."


def _unnamed(rank_costs: pd.DataFrame, machine: pd.DataFrame, outlier: _Outlier) -> str:
    """What a rank that no cause names costs there; a large cost may be chance, or other load."""
    phase = next(name for name, title in PHASES.items() if title == outlier.phase)
    is_own = (rank_costs["rank"] == outlier.rank) & (rank_costs["phase"] == phase)
    cost_ns, share = rank_costs.loc[is_own, ["cost_ns", "cost_share"]].mean()
    if share >= _LARGE:
        is_wait = (machine["rank"] == outlier.rank) & (machine["measure"] == CORE_WAIT)
        waits = float(machine.loc[is_wait.to_numpy(dtype=bool), "mean"].mean())
        if phase not in SHARED_PHASES or not waits >= share:
            return "No cause names this rank: it may be chance."
        had_none = f"it had none for {units.percent(waits, 0)} of the time in which it could run"
        return f"No cause names this rank: it may be chance, or waits for a core ({had_none})."
    if not cost_ns > 0:
        return "Its delays there cost the step nothing."
    cost = f"{units.milliseconds(cost_ns, _DIGITS)} per step ({units.percent(share, 0)})"
    return f"Its delays there cost {cost}; no cause names this rank."


def _cost(waterfall: pd.DataFrame, rank: int) -> str:
    """What the delays of that rank alone cost by the waterfall; empty where it does not name it."""
    rows = waterfall.to_dict("records")
    own = [row for row in rows if row["term"] == STRAGGLER and ranks_of(row) == (rank,)]
    if not own:
        return ""
    cost_ns, low_ns, high_ns = (
        sum(float(row[f"time{end}_ns"]) for row in own) for end in ("", "_low", "_high")
    )
    share, low, high = (
        sum(float(row[f"share{end}"]) for row in own) for end in ("", "_low", "_high")
    )
    # The digits of the verdict, which the reader compares it with.
    cost = units.milliseconds_within(cost_ns, low_ns, high_ns)
    return f"Its delays cost {cost} per step ({units.percent_within(share, low, high)})."
