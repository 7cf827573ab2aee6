"""The steps of the launches of a cell, with their named causes, for a comparison."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from hvdprof.analyze.causes.cell_causes import CellCause, cell_causes
from hvdprof.analyze.causes.cell_split import outlasts_launches
from hvdprof.analyze.compare.sides import SideCell
from hvdprof.analyze.ranks.arrivals import corrected, remaining_offsets
from hvdprof.analyze.ranks.named_cause import NamedCause
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import RankDelay, RankTimes, replayed_without
from hvdprof.analyze.ranks.waiting import own_times
from hvdprof.analyze.steps.step_work import StepWork, step_work, with_all_ranks
from hvdprof.model.arrays import Float64s
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.results.comparison import STEP_TIME
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.run_tables import WAITS
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.model.tables.waiting_tables import CLOCKS

LaunchTimes = Mapping[LaunchKey, RankTimes]
ReadTimes = Callable[[Sequence[LaunchKey]], LaunchTimes]


@dataclass(frozen=True)
class CellLaunches:
    """The launches of a cell that recorded all ranks, in the order of their repeats.

    Attributes:
        times: Their own times.
        repeats: The repeat of each.
        step_ns: Step time of the cell.
    """

    times: tuple[RankTimes, ...]
    repeats: tuple[int, ...]
    step_ns: float

    @property
    def num_ranks(self) -> int:
        """Ranks of the cell."""
        return len(self.times[0].ranks)

    @property
    def has_phases(self) -> bool:
        """Whether the steps of all launches have phases."""
        return all(one.has_phases for one in self.times)

    @cached_property
    def means_ns(self) -> Float64s:
        """[launches] Mean step time of each, ns."""
        return np.array([one.step_ns for one in self.times])

    @property
    def scale(self) -> float:
        """The step time of the cell, a geometric mean, divided by the mean over launches."""
        return self.step_ns / float(self.means_ns.mean())

    @cached_property
    def named(self) -> tuple[Sequence[NamedCause], ...]:
        """The named causes of each launch."""
        return tuple(named_causes(one) for one in self.times)

    @cached_property
    def causes(self) -> tuple[CellCause, ...]:
        """The named causes of the cell, as in its waterfall."""
        return tuple(
            cause
            for cause in cell_causes(self.named, self.num_ranks)
            if outlasts_launches(cause, self.times, self.named)
        )

    def is_alike(self, other: "CellLaunches") -> bool:
        """Whether all launches of both have the same ranks."""
        ranks = self.times[0].ranks.tolist()
        return all(one.ranks.tolist() == ranks for one in (*self.times, *other.times))

    def without(self, delays: Sequence[RankDelay]) -> "CellLaunches":
        """The same launches without these delays."""
        return replace(self, times=tuple(replayed_without(one, delays) for one in self.times))


def no_times(keys: Sequence[LaunchKey]) -> LaunchTimes:
    """The own times of launches that recorded none."""
    del keys
    return {}


def launch_times(analysis: RunAnalysis, keys: Sequence[LaunchKey]) -> dict[LaunchKey, RankTimes]:
    """The own times of some launches, on clocks corrected by the bounds of collectives.

    Args:
        analysis: The run.
        keys: The launches.
    """
    run, of_job = analysis.run, analysis.job_steps
    chosen = set(keys)
    wanted = [rows for key, rows in rows_by_launch(of_job) if key in chosen]
    if not wanted:
        return {}
    of_job = of_job.iloc[np.concatenate(wanted)]
    works = step_work(run.steps, run.events, of_job, run.table(WAITS.name))
    clocks = analysis.table(CLOCKS.name)
    of_all = with_all_ranks(works, run.segments)
    on_one_clock = {key: _on_one_clock(work, clocks, key) for key, work in of_all.items()}
    return own_times(on_one_clock, analysis.table(RANK_MACHINE.name))


def cell_launches(cell: SideCell, times: LaunchTimes) -> CellLaunches | None:
    """The launches of a cell; None where none recorded its steps on all ranks.

    Args:
        cell: The cell.
        times: The own times of each launch of the run.
    """
    known = sorted((repeat, key) for key, repeat in cell.repeat_of.items() if key in times)
    if not known:
        return None
    return CellLaunches(
        times=tuple(times[key] for _, key in known),
        repeats=tuple(repeat for repeat, _ in known),
        step_ns=math.exp(cell.spreads[STEP_TIME.name].value),
    )


def are_pairs(first: CellLaunches, second: CellLaunches) -> bool:
    """Whether both have one launch of each repeat, and the same repeats, two or more."""
    repeats = first.repeats
    return repeats == second.repeats and len(set(repeats)) == len(repeats) > 1


def _on_one_clock(work: StepWork, clocks: pd.DataFrame, key: LaunchKey) -> StepWork:
    is_own = np.ones(len(clocks), dtype=bool)
    for name, value in zip(LAUNCH, key, strict=True):
        is_own &= (clocks[name].astype(str) == value).to_numpy()
    rows = clocks[is_own]
    if rows["rank"].tolist() != work.ranks.tolist():
        return work
    return corrected(work, remaining_offsets(rows))
