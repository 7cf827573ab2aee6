"""The pieces of a run's tables while its files are read, and the run they become."""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from pandas.api.types import union_categoricals

from hvdprof.ingest.nccl.nccl_jobs import nccl_tables
from hvdprof.ingest.recorder.clock_alignment import Alignment
from hvdprof.ingest.recorder.recorded_tables import (
    arrival_block,
    part_block,
    rank_block,
    step_block,
)
from hvdprof.ingest.recorder.recorder_lines import RecorderFile
from hvdprof.ingest.storage.blocks import Block, stacked
from hvdprof.ingest.storage.cached_table import KeptTable
from hvdprof.ingest.tables.bucket_tables import bucket_blocks
from hvdprof.ingest.tables.event_tables import (
    Int64s,
    mark_block,
    timeline_blocks,
    timeline_clock,
)
from hvdprof.ingest.tables.timeline_file_row import timeline_file_row
from hvdprof.ingest.timeline.horovod_timeline import TimelineFile
from hvdprof.model.cached_run import KeptRun
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.run import Run, declared_table
from hvdprof.model.schema import Table
from hvdprof.model.table_catalogue import TABLES
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, RANKS, SEGMENTS, STEPS
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.rundir.manifest import Manifest

StepsOfRank0 = tuple[Int64s, Int64s, Int64s] | None


@dataclass(slots=True)
class Gathered:
    """Blocks of the five tables of a run, frames of all others, and notes.

    ``kept`` holds, by file, the tables of large timelines, which stay in files of their own.
    """

    segments: list[Block] = field(default_factory=list)
    ranks: list[Block] = field(default_factory=list)
    steps: list[Block] = field(default_factory=list)
    arrivals: list[Block] = field(default_factory=list)
    events: list[Block] = field(default_factory=list)
    of_timelines: dict[str, list[Block]] = field(default_factory=dict)
    others: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
    nccl: list[NcclRecording] = field(default_factory=list)
    kept: dict[str, dict[str, KeptTable]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add_recording(
        self, pass_id: str, rank: int, file: RecorderFile, alignment: Alignment
    ) -> None:
        """Add all that one rank recorded in one pass."""
        last_ns = int(file.header.get("monotonic_ns", 0))
        for segment in file.segments.values():
            if not segment.num_steps:
                continue
            last_ns = max(last_ns, segment.last_start_ns)
            self.steps.append(step_block(pass_id, rank, segment, alignment))
            arrivals = arrival_block(pass_id, rank, segment, alignment)
            if arrivals is not None:
                self.arrivals.append(arrivals)
            parts = part_block(pass_id, rank, segment, alignment)
            if parts is not None:
                self.events.append(parts)
            # As with a timeline, rank 0 stands for all: a reduction ends on all of them together.
            buckets = bucket_blocks(pass_id, segment, alignment) if rank == 0 else {}
            if buckets:
                self.events.append(buckets.pop(EVENTS.name))
            for name, block in buckets.items():
                self.of_timelines.setdefault(name, []).append(block)
        if file.marks:
            self.events.append(mark_block(pass_id, rank, file, alignment))
        self.ranks.append(rank_block(pass_id, rank, file, alignment, last_ns))

    def add_timeline(
        self,
        pass_id: str,
        segment: str,
        file: TimelineFile,
        rank_0: RecorderFile | None,
        steps_of_rank_0: StepsOfRank0,
    ) -> int:
        """Add all that a timeline file holds; returns the number of rows of EVENTS.

        Args:
            pass_id: The pass, or the name of a lone file.
            segment: The segment whose timeline it is.
            file: What the file holds.
            rank_0: The recording of rank 0 that tells its clock.
            steps_of_rank_0: As for ``event_tables.timeline_blocks``.
        """
        clock = timeline_clock(file, rank_0)
        blocks = timeline_blocks(pass_id, segment, file, clock, steps_of_rank_0)
        events = blocks.pop(EVENTS.name, None)
        if events is None:
            return 0
        self.events.append(events)
        for name, block in blocks.items():
            self.of_timelines.setdefault(name, []).append(block)
        self.add_tables([(TIMELINES.name, timeline_file_row(pass_id, segment, file))])
        return len(file.rows)

    def add_tables(self, tables: Iterable[tuple[str, pd.DataFrame]]) -> int:
        """Add frames of other tables by name; returns the number of rows added."""
        num_rows = 0
        for name, frame in tables:
            if len(frame):
                self.others.setdefault(name, []).append(frame)
                num_rows += len(frame)
        return num_rows

    def run(self, folder: Path, manifest: Manifest, *, recorded: bool = True) -> Run:
        """The run of all that was added."""
        self.add_tables(nccl_tables(self.nccl))
        self.add_tables([(NOTES.name, NOTES.frame({"note": self.notes}))])
        for table in TABLES:
            if table.name in self.of_timelines:
                blocks = self.of_timelines[table.name]
                self.add_tables([(table.name, stacked(table, blocks))])
        run = Run(
            folder=folder,
            manifest=manifest,
            segments=stacked(SEGMENTS, self.segments),
            steps=stacked(STEPS, self.steps),
            arrivals=stacked(ARRIVALS, self.arrivals),
            events=stacked(EVENTS, self.events),
            notes=tuple(self.notes),
            ranks=stacked(RANKS, self.ranks),
            others={
                table.name: _below_each_other(table, self.others[table.name])
                for table in TABLES
                if table.name in self.others
            },
            recorded=recorded,
            nccl=tuple(self.nccl),
        )
        return KeptRun.of(run, self.kept, _made(run, self.kept)) if self.kept else run


def _made(
    run: Run, kept: Mapping[str, Mapping[str, KeptTable]]
) -> dict[str, Callable[[], pd.DataFrame]]:
    """By name, what makes a table of its rows in a run and of those that are kept."""

    def make(table: Table) -> pd.DataFrame:
        frames = [run.table(table.name), *(tables[table.name].frame() for tables in kept.values())]
        filled = [frame for frame in frames if len(frame)]
        return _below_each_other(table, filled) if filled else table.empty()

    names = {name for tables in kept.values() for name, rows in tables.items() if len(rows)} | {
        EVENTS.name
    }
    return {name: functools.partial(make, declared_table(name)) for name in sorted(names)}


def _below_each_other(table: Table, frames: list[pd.DataFrame]) -> pd.DataFrame:
    if len(frames) == 1:
        return frames[0]
    columns = {}
    for column in table.columns:
        values = [frame[column.name] for frame in frames]
        columns[column.name] = (
            union_categoricals([value.array for value in values])
            if column.dtype == "category"
            else pd.concat(values, ignore_index=True)
        )
    return table.frame(pd.DataFrame(columns))
