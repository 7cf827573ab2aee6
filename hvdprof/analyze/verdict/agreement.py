"""Whether the cause that a verdict is about to name agrees with the account of each rank.

WATERFALL and RANK_COSTS are computed from the same steps in two ways. What the first lines say must
hold in both: else there is no single cause to name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.steps.other_load import LEAST_EXPLAINED, passing_core_losses
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name, ranks_of, where
from hvdprof.model.causes import (
    COMPUTE_INFLATION,
    INPUT_BOUND,
    OUTSIDE_PHASES,
    SHARED_PHASES,
    STRAGGLER,
)
from hvdprof.model.cell_key import LAUNCH, of_base_cell
from hvdprof.model.run import Sentence
from hvdprof.model.schema import as_text
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.waiting_tables import RANK_COSTS
from hvdprof.rundir.manifest import Mode

PHASES_OF_ALL: Mapping[str, tuple[str, ...]] = {
    INPUT_BOUND: ("data",),
    OUTSIDE_PHASES: ("outside", "before_update"),
    COMPUTE_INFLATION: SHARED_PHASES,
}
"""The phases of the terms that all ranks share."""

MOST = 0.75
"""Share of what the ranks cost in a phase from which it is one rank's."""

LEAST_BORNE = 1 / 3
"""Share of a cost that the account bears at least: what ranks overlap is split among them."""


@dataclass(frozen=True, slots=True)
class CellAccount:
    """RANK_COSTS of a cell, means over its launches.

    ``rows`` has a row per rank and phase with ``cost_share`` and ``later_share``, those of the mean
    step, and ``shared_ns``. What ``without_core`` ranks cost is explained by waits for a core.
    """

    rows: pd.DataFrame
    without_core: frozenset[int] = frozenset()

    def cost(self, rank: int) -> float:
        """What a rank costs, or is later by where that is more: among many it costs a part."""
        own = self.rows[self.rows["rank"] == rank]
        return max(float(own["cost_share"].sum()), float(own["later_share"].sum()))

    def shared(self, phases: Sequence[str]) -> float:
        """What half of the ranks spend in the phases, ns per step; equal for all ranks."""
        in_phases = self.rows[self.rows["phase"].isin(phases)]
        return float(in_phases.groupby("phase")["shared_ns"].mean().sum())


def cell_account(
    tables: Mapping[str, pd.DataFrame], segments: pd.DataFrame, cell: pd.Series
) -> CellAccount:
    """The account of a cell without toggles, in throughput mode.

    Args:
        tables: LAUNCHES, RANK_COSTS and RANK_MACHINE by name.
        segments: SEGMENTS.
        cell: A row of SCALING.
    """
    of_cell = of_base_cell(segments, str(cell["model"]), int(cell["np"]), str(cell["engine"]))
    own = of_cell[(of_cell["mode"] == Mode.THROUGHPUT).to_numpy(dtype=bool)]
    rows = as_text(tables[RANK_COSTS.name], LAUNCH).merge(as_text(own[LAUNCH], LAUNCH))
    by_phase = rows.groupby(["rank", "phase"], as_index=False, observed=True)
    means = by_phase[["cost_ns", "later_ns", "shared_ns"]].mean()
    recorded = as_text(tables[LAUNCHES.name], LAUNCH).merge(rows[LAUNCH].drop_duplicates())
    step_ns = float(recorded["step_time_ns"].mean())
    shares = {f"{name}_share": means[f"{name}_ns"] / step_ns for name in ("cost", "later")}
    account = CellAccount(means.assign(**shares).astype({"rank": int, "phase": str}))
    losses = passing_core_losses(tables[RANK_MACHINE.name])
    keys = recorded[LAUNCH].itertuples(index=False, name=None)
    lost = pd.DataFrame([losses.get(key, {}) for key in keys]).fillna(0.0).mean()
    explained = (rank for rank in lost.index if lost[rank] >= LEAST_EXPLAINED * account.cost(rank))
    return replace(account, without_core=frozenset(explained))


def contradiction(
    row: FrameRow, named: Sequence[FrameRow], account: CellAccount
) -> Sentence | None:
    """What the first lines say instead of a cause that the account contradicts; else None.

    1.  A loss of all ranks is none where what they share there bears less than a third of it, and
        one rank has three quarters of what the ranks cost there.
    2.  A straggler is none where its account bears less than a third of the cost, and where a rank
        without a name costs more than both. Ranks that had no core need none.

    Args:
        row: The costliest row of WATERFALL.
        named: The rows of the cell.
        account: That of the cell.
    """
    rows = account.rows
    if rows.empty:
        return None
    share, ranks = float(row["share"]), ranks_of(row)
    phases = PHASES_OF_ALL.get(str(row["term"]), ())
    known = {one for other in named for one in ranks_of(other)} | account.without_core
    if phases and not ranks:
        in_phase = rows[rows["phase"].isin(phases)]
        costs = in_phase.groupby("rank")["cost_share"].sum()
        rank, cost = int(costs.index[int(costs.argmax())]), float(costs.max())
        borne = account.shared(phases) * share / float(row["time_ns"])
        if borne < LEAST_BORNE * share and rank not in known and cost >= MOST * float(costs.sum()):
            return _no_single_cause(row, rank, cost, phases[0])
    if row["term"] == STRAGGLER and ranks:
        own = sum(account.cost(rank) for rank in ranks)
        others = {rank: account.cost(rank) for rank in rows["rank"].unique() if rank not in known}
        rank = max(others, key=lambda one: others[one], default=ranks[0])
        if own < LEAST_BORNE * share or (rank in others and others[rank] > max(own, share)):
            of_rank = rows[rows["rank"] == rank]
            phase = str(of_rank["phase"].iloc[int(of_rank["cost_share"].argmax())])
            return _no_single_cause(row, rank, account.cost(rank), phase)
    return None


def _no_single_cause(row: FrameRow, rank: int, cost: float, phase: str) -> Sentence:
    waterfall = f"{cause_name(row)} has {units.percent(float(row['share']))} in the waterfall"
    text = "Largest loss: no single cause"
    account = f"rank {rank} costs {units.percent(cost)}, most of it {where(phase)}"
    return Sentence(f"{text}: {waterfall}, but {account}.", f"{text}.")
