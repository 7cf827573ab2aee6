"""What the launches of a cell and their exposed transfer consist of, and whether ranks differ."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import starmap

import numpy as np
import pandas as pd

from hvdprof.analyze.causes.cell_causes import MOST_NAMED, CellCause, cell_causes
from hvdprof.analyze.causes.launch_causes import LaunchCauses, launch_causes
from hvdprof.analyze.ranks.chances import exceeds_scatter
from hvdprof.analyze.ranks.events import MOST_OF_ALL
from hvdprof.analyze.ranks.jitter import JitterRank, jitter_rank
from hvdprof.analyze.ranks.named_cause import LASTING, PERIODIC, STRAGGLER, NamedCause
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.stats.intervals import union
from hvdprof.analyze.stats.uncertainty import NAN, Spread, spread
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.arrays import Int64s
from hvdprof.model.causes import ANY_RANK
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.schema import as_text
from hvdprof.rundir.manifest import Mode

_TIMES = ("start_ns", "dur_ns", "copy_ns")


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

        Those that wait longest, in half of the launches or more; any rank where waits in turn are
        half of what is lost; empty where it is that of all.

        Args:
            lost: What the cell loses in the data phase, as a share of the step.
        """
        found = Counter(launch.longest for launch in self.launches if launch.longest)
        ranks, num = found.most_common(1)[0] if found else ((), 0)
        if ranks and 2 * num >= len(self.launches):
            return ", ".join(map(str, ranks))
        waits = [one.in_turn for one in self.launches]
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


@dataclass(frozen=True, slots=True)
class TransferSplit:
    """Shares of the time between last arrival and release.

    ``executing`` is that in which a collective executes; ``copying``, a part of it, that in which
    gradients are copied into and out of the fusion buffer. ``traced_ns`` is that time per step in
    the launches in trace mode.
    """

    executing: float
    copying: float
    traced_ns: float

    def of(self, time_ns: float) -> "TransferSplit":
        """The split of as much exposed transfer per step in other launches of the cell.

        Without shares where a trace launch has less than half of it or more than twice as much:
        most of it is then something that the trace launch does not have, or the reverse.
        """
        if self.traced_ns <= MOST_APART * time_ns and time_ns <= MOST_APART * self.traced_ns:
            return self
        return TransferSplit(NAN, NAN, self.traced_ns)


UNKNOWN = TransferSplit(NAN, NAN, NAN)

MOST_APART = 2.0
"""Factor between exposed transfer of trace and throughput launches up to which one splits both."""


def transfer_splits(
    times: Mapping[Cell, CellTime],
    works: Mapping[LaunchKey, StepWork],
    executions: pd.DataFrame,
) -> dict[Cell, TransferSplit]:
    """What the time after the last arrival consists of, by cell.

    Keys are cells in throughput mode with a launch in trace mode; a mean over these launches.

    Args:
        times: The launches of each cell, in every mode.
        works: The steps of each launch.
        executions: EXECUTIONS.
    """
    timed = executions.loc[executions["dur_ns"].notna(), [*LAUNCH, *_TIMES]]
    timed = as_text(timed, LAUNCH).astype(dict.fromkeys(_TIMES, "int64"))
    splits: dict[LaunchKey, TransferSplit] = {}
    for key, members in rows_by_launch(timed):
        if key in works:
            own = timed.iloc[members]
            split = transfer_split(works[key], *(own[name].to_numpy() for name in _TIMES))
            if split is not UNKNOWN:
                splits[key] = split
    found = {}
    for cell, time in times.items():
        known = [splits[key] for key in time.launches if key in splits]
        if known and cell.mode == Mode.TRACE:
            found[cell.in_mode(Mode.THROUGHPUT)] = TransferSplit(
                *(
                    float(np.mean([getattr(launch, one.name) for launch in known]))
                    for one in fields(TransferSplit)
                )
            )
    return found


def transfer_split(
    work: StepWork, start_ns: Int64s, dur_ns: Int64s, copy_ns: Int64s
) -> TransferSplit:
    """What the time between last arrival and release consists of in one launch.

    Args:
        work: The steps of the launch, on the clock of rank 0.
        start_ns: Starts of its executions, on the same clock.
        dur_ns: Their lengths.
        copy_ns: The time that each of them copies.

    Returns:
        ``UNKNOWN`` where no time passes between arrival and release.
    """
    arrival = work.arrived.max(axis=1).astype(np.int64)
    release = np.maximum(arrival + work.transfer.mean(axis=1).astype(np.int64), arrival)
    whole = int((release - arrival).sum())
    if not whole:
        return UNKNOWN
    executing = float(union(start_ns, start_ns + dur_ns).covered(arrival, release).sum())
    exposed = union(arrival, release).covered(start_ns, start_ns + dur_ns)
    copying = float((exposed * np.minimum(copy_ns / np.maximum(dur_ns, 1), 1.0)).sum())
    return TransferSplit(executing / whole, min(copying, executing) / whole, whole / len(arrival))
