"""What the ranks spend in the data phase and outside all phases, where they differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import STRAGGLER
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.rank_names import ranks_named

_BEFORE_UPDATE = "before_update"


@dataclass(frozen=True, slots=True)
class LongestWaits:
    """Ranks that wait longest for their input; times are means per step, ns."""

    ranks: tuple[int, ...]
    own_ns: float
    others_ns: float

    @property
    def name(self) -> str:
        """Such as ``rank 0``."""
        return ranks_named(self.ranks)

    @property
    def sentence(self) -> str:
        """Their times, those of the others, and what these do not show."""
        is_one = len(self.ranks) == 1
        text = (
            f"{self.name} {'spends' if is_one else 'spend'} "
            f"{units.milliseconds(self.own_ns)} per step there, the other ranks "
            f"{units.milliseconds(self.others_ns)}, whose queues fill meanwhile: they may load as "
            "slowly."
        )
        return text[0].upper() + text[1:]


def longest_waits(evidence: Evidence, cause: CostlyCause) -> LongestWaits | None:
    """The ranks that wait longest for input, by WATERFALL; None where most wait about as long.

    Args:
        evidence: The run.
        cause: The row of WATERFALL on input.
    """
    times = _times_by_rank(evidence, cause, ("data",))
    ranks = [rank for rank in ranks_of(cause.row) if rank in times]
    others = [ns for rank, ns in times.items() if rank not in ranks]
    if not ranks or not others:
        return None
    own = float(np.mean([times[rank] for rank in ranks]))
    return LongestWaits(tuple(ranks), own, float(np.median(others)))


def lies_before_update(evidence: Evidence, cause: CostlyCause) -> bool:
    """Whether most of a time outside all phases lies between backward and the update."""
    whole = sum(_times_by_rank(evidence, cause, ("outside", _BEFORE_UPDATE)).values())
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
