"""What each launch of a cell consists of: named causes, ranks alone, jitter, transfer, the rest.

Tested in ``tests/analyze/causes/test_waterfall.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.causes.cell_causes import MOST_NAMED, CellCause, cell_causes
from hvdprof.analyze.causes.launch_causes import LaunchCauses, launch_causes
from hvdprof.analyze.causes.launch_scatter import outlasts_launches
from hvdprof.analyze.causes.rank_alone import RankAlone, ranks_alone
from hvdprof.analyze.ranks.jitter import JitterRank, jitter_rank
from hvdprof.analyze.ranks.named_cause import NamedCause
from hvdprof.analyze.stats.launch_spread import Spread, spread
from hvdprof.analyze.steps.cells import CellTime
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.launch_key import LaunchKey


@dataclass(frozen=True, slots=True)
class CellSplit:
    """The causes of a cell: those with a name, ranks alone, and what each launch consists of.

    ``jitter`` is the rank that most of the jitter lies on; None where it lies on several.
    """

    named: tuple[CellCause, ...]
    alone: tuple[RankAlone, ...]
    launches: tuple[LaunchCauses, ...]
    jitter: JitterRank | None

    @property
    def has_phases(self) -> bool:
        """Whether the steps of all launches have phases."""
        return all(launch.normal for launch in self.launches)

    def part(self, name: str) -> Spread:
        """The share of a part: time of the normal ranks, and the cost of a rank alone in it."""
        return spread([launch.part(name) for launch in self.launches])

    def saved_alone(self, name: str) -> float:
        """How much less than its cost the removal of the rank alone in a part saves, a share."""
        costs = [launch.alone[name] for launch in self.launches if name in launch.alone]
        return (
            float(np.mean([cost.saved_if_removed - cost.share for cost in costs])) if costs else 0.0
        )

    def rank_of(self, name: str, share: float) -> str:
        """The rank that most of so large a share lies on, as text; empty where it is no one's.

        Args:
            name: The part.
            share: What of the part is to be explained.
        """
        costs = [launch.alone[name].share for launch in self.launches if name in launch.alone]
        if not costs or np.mean(costs) <= share / 2:
            return ""
        return next(str(rank.rank) for rank in self.alone if rank.part == name)


def cell_split(
    time: CellTime,
    works: Mapping[LaunchKey, StepWork],
    named: Mapping[LaunchKey, Sequence[NamedCause]],
) -> CellSplit:
    """The causes of a cell, in the launches with recorded steps.

    Args:
        time: The step time of the cell.
        works: The steps of each launch.
        named: The named causes of each launch, largest first.
    """
    known = [key for key in time.launches if key in works]
    by_launch = [named.get(key, ()) for key in known]
    own_works = [works[key] for key in known]
    of_cell = tuple(
        cause
        for cause in cell_causes(by_launch, time.cell.np)
        if outlasts_launches(cause, own_works, by_launch)
    )
    alone = ranks_alone(own_works, of_cell)[: MOST_NAMED - len(of_cell)] if own_works else ()
    launches = (
        launch_causes(
            work,
            [cause.members[number] for cause in of_cell],
            {rank.part: rank.delays[number] for rank in alone},
        )
        for number, work in enumerate(own_works)
    )
    members = [
        [member for cause in of_cell for member in cause.members[number]]
        for number in range(len(own_works))
    ]
    jitter = jitter_rank(own_works, members)
    # What such a rank spends more is in a term of its own, and no longer in the jitter.
    is_apart = jitter is not None and any(rank.rank == jitter.rank for rank in alone)
    return CellSplit(of_cell, alone, tuple(launches), None if is_apart else jitter)
