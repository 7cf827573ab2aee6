"""What the steps of an analysis start from: the run, the tables so far, and what several need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from hvdprof.analyze.causes.bucket_replay import bucket_replays
from hvdprof.analyze.causes.cell_split import transfer_splits
from hvdprof.analyze.causes.waterfall import waterfall
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.run_findings import Rule
from hvdprof.analyze.ranks.rank_machine import rank_machine, whole_windows, with_flop_rates
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.ranks.stragglers import lateness_table, without_timeline_writer
from hvdprof.analyze.ranks.waiting import WaitingTables, waiting_tables
from hvdprof.analyze.scaling.efficiency import losses, scaling
from hvdprof.analyze.scaling.toggles import Curves, final_losses, loss_curves
from hvdprof.analyze.steps.cells import throughput_cells
from hvdprof.analyze.steps.measured_launches import MeasuredLaunches, measured_launches
from hvdprof.analyze.steps.step_work import StepWork, step_work, with_all_ranks
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.schema import Table
from hvdprof.model.tables.run_tables import EVENTS, WAITS
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, RANK_SAMPLES
from hvdprof.model.tables.scaling_tables import LAUNCHES, LOSSES, SCALING
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.model.tables.waiting_tables import (
    CAUSED_WAIT,
    CLOCKS,
    COLLECTIVE_ARRIVALS,
    LATENESS,
    RANK_COSTS,
    STRAGGLERS,
)
from hvdprof.rundir.attached import has_traces


@dataclass(frozen=True)
class Basis(Evidence):
    """A run, its tables so far by name, and what several steps compute from, each made once."""

    @cached_property
    def counted(self) -> MeasuredLaunches:
        """The steady steps of each launch, and the step time of each cell."""
        return measured_launches(self.run)

    @cached_property
    def curves(self) -> Curves:
        """The training loss along the steps."""
        return loss_curves(self.run.steps)

    @cached_property
    def recorded(self) -> Mapping[LaunchKey, StepWork]:
        """The steps of each launch with the ranks that recorded."""
        run = self.run
        return step_work(run.steps, run.events, self.counted.of_job, run.table(WAITS.name))

    @cached_property
    def waits(self) -> WaitingTables:
        """Waiting in launches whose ranks all recorded, and their steps on one clock."""
        works = with_all_ranks(self.recorded, self.run.segments)
        return waiting_tables(self.run.arrivals, works, self.machine)

    @cached_property
    def machine(self) -> pd.DataFrame:
        """RANK_MACHINE, without rates of FLOPs."""
        devices = whole_windows(self.table(DEVICE_SAMPLES.name))
        return rank_machine((self.table(RANK_SAMPLES.name), devices), self.recorded)


Made = pd.DataFrame | Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Step:
    """An analysis: a question, the tables that answer it, and what it is made from.

    Attributes:
        question: What its tables answer, as docs/architecture.md lists it.
        fills: Its tables.
        needs: Tables of files, or of earlier steps, that it reads.
        make: The frame of its table, or the frames of several by name.
        rules: Rules that read its tables, or the records of the run that they rest on.
        page: Where the documentation explains it, below docs/.
    """

    question: str
    fills: tuple[Table, ...]
    needs: tuple[Table, ...]
    make: Callable[[Basis], Made]
    rules: tuple[Rule, ...] = ()
    page: str = ""

    def frames(self, basis: Basis) -> Mapping[str, pd.DataFrame]:
        """Its tables by name."""
        made = self.make(basis)
        return {self.fills[0].name: made} if isinstance(made, pd.DataFrame) else made


def scaling_frames(basis: Basis) -> Mapping[str, pd.DataFrame]:
    """SCALING and LOSSES by name; what traces do not hold is missing in SCALING."""
    run, measured = basis.run, basis.counted
    learned = final_losses(basis.curves, throughput_cells(measured.times))
    columns = run.segments[["pass_id", "segment", "sent_bytes"]]
    sent_bytes = {
        (str(pass_id), str(segment)): int(sent)
        for pass_id, segment, sent in columns.itertuples(index=False, name=None)
    }
    by_cell = scaling(measured.times, measured.facts, learned, sent_bytes)
    if has_traces(run.manifest):
        from hvdprof.analyze.verdict.traced_verdict import without_rates

        by_cell = without_rates(run, by_cell)
    return {
        SCALING.name: by_cell,
        LOSSES.name: losses(measured.times, measured.facts),
    }


def machine_frame(basis: Basis) -> pd.DataFrame:
    """RANK_MACHINE, with the FLOP/s of ranks whose FLOPs were counted."""
    devices = basis.table(DEVICE_SAMPLES.name)
    return with_flop_rates(basis.machine, devices, basis.table(LAUNCHES.name))


def waiting_frames(basis: Basis) -> Mapping[str, pd.DataFrame]:
    """The tables on clocks, arrivals and ranks that are late, by name."""
    waits = basis.waits
    late = {key: waits.times.get(key) or rank_times(own) for key, own in basis.recorded.items()}
    return {
        CLOCKS.name: waits.clocks,
        COLLECTIVE_ARRIVALS.name: waits.collective_arrivals,
        CAUSED_WAIT.name: waits.caused_wait,
        STRAGGLERS.name: without_timeline_writer(waits.stragglers, basis.run.segments),
        LATENESS.name: lateness_table(late),
        RANK_COSTS.name: waits.rank_costs,
    }


def waterfall_frame(basis: Basis) -> pd.DataFrame:
    """WATERFALL."""
    measured, waits = basis.counted, basis.waits
    split = transfer_splits(measured.times, waits.works, basis.table(EXECUTIONS.name))
    return waterfall(measured.times, waits.times, waits.named, measured.facts, split)


def replays_frame(basis: Basis) -> pd.DataFrame:
    """REPLAYS."""
    names = (COLLECTIVE_ARRIVALS, TENSOR_USES, EXECUTIONS, EVENTS)
    return bucket_replays(basis.waits.works, *(basis.table(table.name) for table in names))
