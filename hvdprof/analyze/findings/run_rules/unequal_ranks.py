"""What the rank spends that alone waits for data, or alone spends time outside all phases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import INPUT_BOUND, OUTSIDE_PHASES, STRAGGLER
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.tables.collective_tables import BREAKDOWN

_BEFORE_UPDATE = "before_update"
_PARTS_OF = {INPUT_BOUND: ("data",), OUTSIDE_PHASES: ("outside", _BEFORE_UPDATE)}
"""The parts of BREAKDOWN of each term that this module knows."""


@dataclass(frozen=True, slots=True)
class RankExcess:
    """A rank that most of a cause lies on; times are means per step, ns."""

    rank: int
    own_ns: float
    others_ns: float

    @property
    def sentence(self) -> str:
        """The times of that rank and of the others."""
        return (
            f"Rank {self.rank} spends {units.milliseconds(self.own_ns)} per step there, the "
            f"other ranks {units.milliseconds(self.others_ns)}."
        )


def rank_excess(evidence: Evidence, cause: CostlyCause) -> RankExcess | None:
    """The rank that most of a cause lies on, by WATERFALL; None where it is that of all ranks.

    Args:
        evidence: The run.
        cause: A row of WATERFALL on the data phase or on time outside all phases.
    """
    times = _times_by_rank(evidence, cause, _PARTS_OF[str(cause.row["term"])])
    for rank in ranks_of(cause.row):
        others = [ns for other, ns in times.items() if other != rank]
        if rank in times and others:
            return RankExcess(rank, times[rank], float(np.median(others)))
    return None


def lies_before_update(evidence: Evidence, cause: CostlyCause) -> bool:
    """Whether most of a time outside all phases lies between backward and the update."""
    whole = sum(_times_by_rank(evidence, cause, _PARTS_OF[OUTSIDE_PHASES]).values())
    before = sum(_times_by_rank(evidence, cause, (_BEFORE_UPDATE,)).values())
    return before > whole / 2


def _times_by_rank(
    evidence: Evidence, cause: CostlyCause, parts: Sequence[str]
) -> dict[int, float]:
    """Mean time by rank over the launches, ns, without the ranks that are named stragglers."""
    breakdown = evidence.table(BREAKDOWN.name)
    if breakdown.empty:
        return {}
    cell = cause.cell
    launches = evidence.measured()
    of_cell = (launches["model"] == cell["model"]) & (launches["size"] == cell["np"])
    segments = launches[of_cell & (launches["engine"] == cell["engine"])]
    names = dict.fromkeys(LAUNCH, "str")
    rows = breakdown.astype(names).merge(segments[list(LAUNCH)])
    rows = rows[rows["part"].isin(parts)]
    named = {
        rank
        for row in evidence.causes_of(cell)
        if row["term"] == STRAGGLER
        for rank in ranks_of(row)
    }
    by_launch = rows.groupby([*LAUNCH, "rank"], observed=True)["time_ns"].sum()
    means = by_launch.groupby("rank").mean()
    return {int(str(rank)): float(ns) for rank, ns in means.items() if int(str(rank)) not in named}
