"""Input queues that run empty on most ranks: what the ranks wait for there is shared.

Behind prefetch queues, the rank whose queue is empty delays all others, whose queues fill
meanwhile. So of ranks that load equally slowly, one that fell behind by chance can stay the only
one that waits for many steps. Where half of the ranks have batches of workers ready, none did: a
rank that waits there lacks a batch, or a core to take one over, itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hvdprof.analyze.ranks.chances import block_length, chances_of_costs
from hvdprof.analyze.ranks.named_cause import SMALLEST_SHARE
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools
from hvdprof.model.cell_key import LAUNCH
from hvdprof.rundir.recording.sample_format import DATA_WAIT, EMPTY, EMPTY_WAIT, FIRST_WAIT

LEAST_STALLS = 2
"""Waits from which the queue of a rank is known to be empty at times."""

AS_LONG = 0.25
"""Smallest size of such a wait, as a share of the median wait of the rank that waits most."""

OFTEN = 0.2
"""Share of steps with a wait of any rank from which the launch waits for its input."""

FAST_SHARE = 0.1
"""Share of the steps with the shortest times, in which the input is ready."""

AS_MUCH = 1 / 3
"""Share of the waits of the rank that waits most, from which another one waits about as long."""

CHANCE = 0.01
"""The chance that waits at random give any rank as many, above which no rank waits longest."""

_DATA = "data"


@dataclass(frozen=True, slots=True)
class QueueWaits:
    """Waits of a launch for its input, ns.

    Attributes:
        waits_ns: [points, ranks] What each rank waits longer than where its input is ready.
        longest: Columns of the ranks that wait longest; empty where most ranks wait about as long,
            and where waits of any rank at random may be as uneven. Where most queues are known to
            hold batches, the ranks without.
    """

    waits_ns: Times
    longest: tuple[int, ...]

    @property
    def in_turn(self) -> float:
        """The share of the waits in which not all ranks wait."""
        longest = float(self.waits_ns.max(axis=1).sum())
        return 1 - float(self.waits_ns.min(axis=1).sum()) / longest if longest > 0 else 0.0


def queue_waits(times: RankTimes) -> QueueWaits | None:
    """The waits of a launch if more than half of its ranks wait for input often; else None.

    A recording without phases is asked for such waits in the whole own time.
    """
    place, step_ns = _place(times), times.step_ns
    own = times.of_steps(times.own_ns)
    data = own[..., place] if place >= 0 else own.sum(axis=2)
    shortest = data.min(axis=0)
    never = shortest > shortest.min() + SMALLEST_SHARE * step_ns
    # Where some ranks wait in every step and the others do not, it is theirs.
    if place >= 0 and 0 < 2 * never.sum() <= len(never):
        return None
    above = data - np.quantile(data, FAST_SHARE, axis=0)
    stalls = _stalls(above, step_ns)
    num = stalls.sum(axis=0)
    if 2 * int((num >= LEAST_STALLS).sum()) <= len(num) or stalls.any(axis=1).mean() < OFTEN:
        return None
    # A rank that nearly always waits has few steps in which its input is ready.
    waits = data - shortest if place >= 0 else np.where(stalls, above, 0.0)
    share = np.divide(waits, data, out=np.zeros_like(data), where=data > 0)
    of_points = np.repeat(share, times.per_step, axis=0) * times.own_ns[..., place]
    if times.have_batches:
        late = [times.late_batches.get(rank, False) for rank in times.ranks.tolist()]
        return QueueWaits(of_points, tuple(np.flatnonzero(late).tolist()))
    return QueueWaits(of_points, _longest(np.where(stalls, above, 0.0)))


def without_empty_queues(times: RankTimes) -> RankTimes:
    """The times with the input always ready, if more than half of the ranks wait for it often."""
    found = queue_waits(times)
    return times if found is None else without_waits(times, found)


def without_waits(times: RankTimes, waits: QueueWaits) -> RankTimes:
    """The own times of a launch without these waits of it; the step time stays."""
    changed = times.own_ns.copy()
    changed[..., _place(times)] -= waits.waits_ns
    return replace(times, own_ns=changed)


def late_batches(machine: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Whether most of the time in ``next`` passes with no batch ready, ``late``, by ``keys``.

    ``known``: whether queues of workers were seen. Of RANK_MACHINE; no rows without loaders.
    """
    means = machine.astype(dict.fromkeys((*LAUNCH, "measure"), str))
    means = means.pivot_table("mean", list(keys), "measure")
    if not {DATA_WAIT, EMPTY_WAIT, FIRST_WAIT} <= set(means):
        return pd.DataFrame({"late": [], "known": []}, dtype=bool)
    late = means[EMPTY_WAIT] + means[FIRST_WAIT] >= means[DATA_WAIT] / 2
    return pd.DataFrame({"late": late, "known": means.get(EMPTY, late * np.nan).notna()})


def are_late(times: RankTimes, places: Sequence[int]) -> bool:
    """Whether ranks, by columns, are late with their waits for data, where these are their own."""
    if not times.have_batches or len(places) == len(times.ranks):
        return True
    late = float(times.lateness.mean(axis=0)[list(places)].mean())
    return late >= SMALLEST_SHARE * times.step_ns


def _longest(waits: Times) -> tuple[int, ...]:
    """The columns of the ranks that wait longest, of waits [steps, ranks]; empty as stated."""
    waited = waits.sum(axis=0)
    is_long = waited >= AS_MUCH * waited.max()
    if 2 * is_long.sum() > len(waited):
        return ()
    chances = chances_of_costs([waits], block_length(waits, is_long))
    return tuple(np.flatnonzero(is_long).tolist()) if chances.min() <= CHANCE else ()


def _place(times: RankTimes) -> int:
    """The column of the data phase; the last one, of all own time, without phases."""
    return times.phases.index(_DATA) if _DATA in times.phases else -1


def _stalls(above: Times, step_ns: float) -> Bools:
    stalls = above >= SMALLEST_SHARE * step_ns
    total = np.where(stalls, above, 0.0).sum(axis=0)
    most = above[:, total.argmax()]
    own = most[most >= SMALLEST_SHARE * step_ns]
    size = float(np.median(own)) if len(own) else 0.0
    return np.asarray(above >= max(SMALLEST_SHARE * step_ns, AS_LONG * size))
