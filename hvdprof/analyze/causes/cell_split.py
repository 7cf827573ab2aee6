"""What each launch of a cell consists of: named causes, input, jitter, transfer, the rest.

Tested in ``tests/analyze/causes/test_waterfall.py``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdprof.analyze.causes.cell_causes import MOST_NAMED, CellCause, cell_causes
from hvdprof.analyze.causes.launch_causes import LaunchCauses, launch_causes
from hvdprof.analyze.causes.launch_scatter import outlasts_launches
from hvdprof.analyze.ranks.jitter import JitterRank, jitter_rank
from hvdprof.analyze.ranks.named_cause import NamedCause
from hvdprof.analyze.stats.launch_spread import Spread, spread
from hvdprof.analyze.steps.cells import CellTime
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.causes import ANY_RANK
from hvdprof.model.launch_key import LaunchKey


@dataclass(frozen=True, slots=True)
class CellSplit:
    """The causes of a cell: those with a name, and what each launch consists of.

    ``works`` are the steady steps of the launches. ``jitter`` is the rank that most of the jitter
    lies on; None where it lies on several.
    """

    named: tuple[CellCause, ...]
    launches: tuple[LaunchCauses, ...]
    works: tuple[StepWork, ...]
    jitter: JitterRank | None

    @property
    def has_phases(self) -> bool:
        """Whether the steps of all launches have phases."""
        return all(launch.normal for launch in self.launches)

    def part(self, name: str) -> Spread:
        """The share of a part: what the normal ranks share, and waits for input behind queues."""
        return spread([launch.part(name) for launch in self.launches])

    def waiting_ranks(self, lost: float) -> str:
        """The ranks of such waits, as in WATERFALL.

        Those that wait longest, in half of the launches or more; any rank where these waits are
        half of what is lost; empty where it is that of all.

        Args:
            lost: What the cell loses in the data phase, as a share of the step.
        """
        found = Counter(launch.longest for launch in self.launches if launch.longest)
        ranks, num = found.most_common(1)[0] if found else ((), 0)
        if ranks and 2 * num >= len(self.launches):
            return ", ".join(map(str, ranks))
        waits = [0.0 if one.queues is None else one.queues.share for one in self.launches]
        return ANY_RANK if any(waits) and 2 * sum(waits) >= lost * len(waits) else ""


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
    )[:MOST_NAMED]
    members = [[cause.members[number] for cause in of_cell] for number in range(len(own_works))]
    launches = tuple(
        launch_causes(work, of_launch) for work, of_launch in zip(own_works, members, strict=True)
    )
    in_launches = [[one for cause in of_launch for one in cause] for of_launch in members]
    return CellSplit(of_cell, launches, tuple(own_works), jitter_rank(own_works, in_launches))
