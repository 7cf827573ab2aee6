"""The pieces of a run's tables while its files are read, and the run they become."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from pandas.api.types import union_categoricals

from hvdprof.ingest.blocks import Block, stacked
from hvdprof.ingest.clock import Alignment
from hvdprof.ingest.event_tables import mark_block
from hvdprof.ingest.recorded_tables import arrival_block, part_block, rank_block, step_block
from hvdprof.ingest.recorder_file import RecorderFile
from hvdprof.model.catalogue import TABLES
from hvdprof.model.run import Run
from hvdprof.model.schema import Table
from hvdprof.model.tables import ARRIVALS, EVENTS, RANKS, SEGMENTS, STEPS
from hvdprof.rundir.manifest import Manifest


@dataclass(slots=True)
class Gathered:
    """Blocks of the five tables of a run, frames of all others, and notes."""

    segments: list[Block] = field(default_factory=list)
    ranks: list[Block] = field(default_factory=list)
    steps: list[Block] = field(default_factory=list)
    arrivals: list[Block] = field(default_factory=list)
    events: list[Block] = field(default_factory=list)
    others: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
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
        if file.marks:
            self.events.append(mark_block(pass_id, rank, file, alignment))
        self.ranks.append(rank_block(pass_id, rank, file, alignment, last_ns))

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
        return Run(
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
        )


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
