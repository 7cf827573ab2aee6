"""What each launch of a cell consists of: named causes, input, jitter, transfer, the rest.

Tested in ``tests/analyze/causes/test_waterfall.py``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

from hvdprof.analyze.causes.cell_causes import MOST_NAMED, CellCause, cell_causes
from hvdprof.analyze.causes.launch_causes import LaunchCauses, launch_causes
from hvdprof.analyze.causes.launch_scatter import outlasts_launches
from hvdprof.analyze.ranks.jitter import JitterRank, jitter_rank
from hvdprof.analyze.ranks.named_cause import NamedCause
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.stats.launch_spread import Spread, spread
from hvdprof.analyze.steps.cells import CellTime
from hvdprof.model.causes import ANY_RANK
from hvdprof.model.launch_key import LaunchKey


@dataclass(frozen=True, slots=True)
class CellSplit:
    """The causes of a cell: those with a name, and what each launch consists of.

    ``times`` are the own times of the launches. ``jitter`` is the rank that most of the jitter
    lies on; None where it lies on several.
    """

    named: tuple[CellCause, ...]
    launches: tuple[LaunchCauses, ...]
    times: tuple[RankTimes, ...]
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
    times: Mapping[LaunchKey, RankTimes],
    named: Mapping[LaunchKey, Sequence[NamedCause]],
) -> CellSplit:
    """The causes of a cell, in the launches with recorded steps.

    Args:
        time: The step time of the cell.
        times: The own times of each launch.
        named: The named causes of each launch, largest first.
    """
    known = [key for key in time.launches if key in times]
    by_launch = [named.get(key, ()) for key in known]
    own = [times[key] for key in known]
    of_cell = tuple(
        cause
        for cause in cell_causes(by_launch, time.cell.np)
        if outlasts_launches(cause, own, by_launch)
    )[:MOST_NAMED]
    members = [[cause.members[number] for cause in of_cell] for number in range(len(own))]
    launches = tuple(starmap(launch_causes, zip(own, members, strict=True)))
    in_launches = [[one for cause in of_launch for one in cause] for of_launch in members]
    return CellSplit(of_cell, launches, tuple(own), jitter_rank(own, in_launches))
