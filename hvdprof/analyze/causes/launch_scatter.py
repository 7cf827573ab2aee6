"""Whether ranks are late beyond the differences from launch to launch.

Within a launch every step shares the placement of the ranks on cores, so a rank of a healthy job
may be late in most steps: another rank in the next launch. A straggler is a property of the rank,
not of the launch.
"""

from collections.abc import Sequence

import numpy as np

from hvdprof.analyze.causes.cell_causes import CellCause
from hvdprof.analyze.ranks.chances import exceeds_scatter
from hvdprof.analyze.ranks.events import MOST_OF_ALL
from hvdprof.analyze.ranks.named_cause import LASTING, PERIODIC, STRAGGLER, NamedCause
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.causes import ANY_RANK


def outlasts_launches(
    cause: CellCause,
    launches: Sequence[RankTimes],
    named: Sequence[Sequence[NamedCause]],
) -> bool:
    """Whether a cause of a cell is more than a difference between its launches.

    True of pauses, of delays now and then, whose number of events is significant within a launch,
    and of a single launch, in which the differences are unknown. Other ranks must be late by a
    mean over launches that is significant (Student t, one-sided, the level shared by the ranks,
    the scatter of all ranks pooled) or at least ``LARGE_SHARE`` of the step.

    Args:
        cause: The cause.
        launches: The own times of each launch of the cell.
        named: The named causes of each launch.
    """
    if len(launches) < 2 or cause.kind != STRAGGLER or cause.ranks == ANY_RANK or not _lasts(cause):
        return True
    members = cause.every[0].ranks
    rows = [
        _mean_lateness(times, [event for event in own if _is_sparse(event)])
        for times, own in zip(launches, named, strict=True)
    ]
    known = [row for row in rows if row is not None]
    places = np.searchsorted(launches[0].ranks, members)
    return len(known) < 2 or exceeds_scatter(np.array(known), places.tolist())


def _lasts(cause: CellCause) -> bool:
    """Slow ranks, and those that are late in so many steps that these are no events."""
    return cause.pattern != PERIODIC and not all(_is_sparse(member) for member in cause.every)


def _is_sparse(one: NamedCause) -> bool:
    return one.pattern not in LASTING and float(one.affected.any(axis=1).mean()) <= MOST_OF_ALL


def _mean_lateness(times: RankTimes, events: Sequence[NamedCause]) -> Times | None:
    """[ranks] Share of the step, in the steps without an event; None without steps."""
    is_free = np.ones(len(times.steps), dtype=bool)
    for event in events:
        is_free &= ~event.affected.any(axis=1)
    if not is_free.any():
        return None
    return np.asarray(times.lateness[is_free].mean(axis=0) / times.step_ns)
