"""The pieces of a run's tables while its files are read, and the run they become."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from pandas.api.types import union_categoricals

from hvdprof.ingest.nccl.joining import nccl_tables
from hvdprof.ingest.storage.blocks import Block, stacked
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.model.cached_rows import LazyFrames
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.notes import Note, notes_frame
from hvdprof.model.run import Run
from hvdprof.model.schema import Table
from hvdprof.model.table_catalogue import TABLES, declared_table
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, GRADIENTS, RANKS, STEPS, WAITS
from hvdprof.model.tables.timeline_tables import TIMELINES
from hvdprof.model.tables.window_tables import EVALUATIONS, WINDOWS
from hvdprof.rundir.manifest import Manifest

if TYPE_CHECKING:
    from hvdprof.ingest.recorder.recorder_file import RecorderFile
    from hvdprof.ingest.recorder.session_rows import Alignment
    from hvdprof.ingest.storage.cached_table import CachedTable
    from hvdprof.ingest.tables.event_tables import StepTimes
    from hvdprof.ingest.timeline.horovod_timeline import Summary, TimelineFile
import numpy as np

from hvdprof.ingest.recorder.recorder_file import SegmentRecording
from hvdprof.ingest.recorder.session_rows import Alignment
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES


@dataclass(slots=True)
class RunBuilder:
    """What the files of a run hold, while they are read.

    Attributes:
        blocks: Pieces of tables by the name of the table.
        frames: Frames of tables by the name of the table.
        nccl: What the NCCL logs of each job say.
        cached: By file, the tables of large timelines, which stay in the cache.
        notes: What was skipped or is odd.
    """

    blocks: dict[str, list[Block]] = field(default_factory=dict)
    frames: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
    nccl: list[NcclRecording] = field(default_factory=list)
    cached: dict[str, dict[str, "CachedTable"]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def add_recording(
        self, pass_id: str, rank: int, file: "RecorderFile", alignment: "Alignment"
    ) -> None:
        """Add all that one rank recorded in one pass."""
        # Standalone logs are read without the readers of recordings and timelines.
        from hvdprof.ingest.recorder.recorded_tables import (
            arrival_block,
            evaluation_block,
            gradient_block,
            part_block,
            rank_block,
            step_block,
            wait_block,
            window_block,
        )
        from hvdprof.ingest.tables.event_tables import mark_block

        last_ns = file.header_number("monotonic_ns", 0)
        for segment in file.segments.values():
            if len(segment.windows):
                self.add_block(WINDOWS, window_block(pass_id, rank, segment, alignment))
            if not segment.num_steps:
                continue
            last_ns = max(last_ns, segment.last_start_ns)
            self.add_block(STEPS, step_block(pass_id, rank, segment, alignment))
            for table, make in (
                (EVALUATIONS, evaluation_block),
                (ARRIVALS, arrival_block),
                (WAITS, wait_block),
                (EVENTS, part_block),
            ):
                block = make(pass_id, rank, segment, alignment)
                if block is not None:
                    self.add_block(table, block)
            gradients = gradient_block(pass_id, segment) if rank == 0 else None
            if gradients is not None:
                self.add_block(GRADIENTS, gradients)
            # As with a timeline, rank 0 stands for all: a reduction ends on all of them together.
            buckets = bucket_blocks(pass_id, segment, alignment) if rank == 0 else {}
            for name, block in buckets.items():
                self.blocks.setdefault(name, []).append(block)
        if file.marks:
            self.add_block(EVENTS, mark_block(pass_id, rank, file, alignment))
        self.add_block(RANKS, rank_block(pass_id, rank, file, alignment, last_ns))

    def add_block(self, table: Table, block: Block) -> None:
        """Add a piece of a table."""
        self.blocks.setdefault(table.name, []).append(block)

    def add_timeline(
        self,
        pass_id: str,
        segment: str,
        file: "TimelineFile",
        rank_0: "RecorderFile | None",
        steps_of_rank_0: "StepTimes | None",
    ) -> int:
        """Add all that a timeline file holds; returns the number of rows of EVENTS."""
        from hvdprof.ingest.tables.event_tables import timeline_blocks, timeline_clock

        clock = timeline_clock(file, rank_0)
        blocks = timeline_blocks((pass_id, segment), file, clock, steps_of_rank_0)
        if EVENTS.name not in blocks:
            return 0
        for name, block in blocks.items():
            self.blocks.setdefault(name, []).append(block)
        self.add_tables([(TIMELINES.name, timeline_file_row(pass_id, segment, file.summary))])
        return len(file.rows)

    def add_tables(self, tables: Iterable[tuple[str, pd.DataFrame]]) -> int:
        """Add frames of other tables by name; returns the number of rows added."""
        num_rows = 0
        for name, frame in tables:
            if len(frame):
                self.frames.setdefault(name, []).append(frame)
                num_rows += len(frame)
        return num_rows

    def run(self, folder: Path, manifest: Manifest, *, recorded: bool = True) -> Run:
        """The run of all that was added."""
        self.add_tables(nccl_tables(self.nccl))
        self.add_tables([(NOTES.name, notes_frame(self.notes))])
        frames: dict[str, pd.DataFrame] = {}
        for table in TABLES:
            pieces = list(self.frames.get(table.name, ()))
            if table.name in self.blocks:
                pieces.append(stacked(table, self.blocks[table.name]))
            if pieces:
                frames[table.name] = below_each_other(table, pieces)
        return Run(
            folder=folder,
            manifest=manifest,
            frames=_lazy(frames, self.cached) if self.cached else frames,
            notes=tuple(self.notes),
            recorded=recorded,
            nccl=tuple(self.nccl),
            cached=self.cached,
        )


def _lazy(
    frames: Mapping[str, pd.DataFrame], cached: Mapping[str, Mapping[str, "CachedTable"]]
) -> LazyFrames:
    """All tables by name; those with rows in the cache are loaded at their first use."""
    names = [name for tables in cached.values() for name, rows in tables.items() if len(rows)]
    tables_of = {
        name: [tables[name] for tables in cached.values() if len(tables[name])] for name in names
    }
    num_rows = {
        name: len(frames.get(name, ())) + sum(map(len, rows)) for name, rows in tables_of.items()
    }

    def load(name: str) -> pd.DataFrame:
        ready = [frames[name]] if name in frames else []
        cached_frames = [rows.frame() for rows in tables_of[name]]
        return below_each_other(declared_table(name), [*ready, *cached_frames])

    ready = {name: frame for name, frame in frames.items() if name not in tables_of}
    loaders = {name: functools.partial(load, name) for name in tables_of}
    return LazyFrames(ready, loaders, num_rows)


def below_each_other(table: Table, frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One frame of a table made of several, in their order, with the categories of all."""
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


COLLECTIVE = "ALLREDUCE"

_OF_EVENTS = ("step", "tensor", "occurrence", "fusion_id", "start_ns", "dur_ns", "clock_error_ns")


def bucket_blocks(
    pass_id: str, segment: SegmentRecording, alignment: Alignment
) -> dict[str, Block]:
    """EVENTS, TENSOR_USES and EXECUTIONS by name; empty where no bucket was recorded.

    DDP negotiates nothing: which gradients go together is settled when the model is wrapped, so
    the columns on negotiation are missing. Times are from the handing over of a bucket to its end;
    queueing behind other buckets and the waiting for ranks that are later count as transfer.
    """
    buckets = segment.bucket_table()
    if not len(buckets):
        return {}
    row, offset_ns, dur_ns, num_tensors = buckets.T
    steps = segment.step_table()[row]
    start_ns = steps[:, 2] + offset_ns
    members = np.asarray(segment.bucket_members, dtype=np.int64)
    sent = np.asarray(segment.sent_of, dtype=np.int64)[members]
    owner = np.repeat(np.arange(len(buckets)), num_tensors)
    nothing = np.zeros(len(buckets), dtype=np.int64)
    common = {"pass_id": pass_id, "segment": segment.id, "collective": COLLECTIVE}
    of_bucket = {
        "step": steps[:, 0],
        "start_ns": alignment.aligned_ns(start_ns),
        "dur_ns": dur_ns,
        "warmup": steps[:, 1].astype(bool),
        "clock_error_ns": alignment.errors_ns(start_ns),
    }
    executions = of_bucket | {
        "fusion_id": np.arange(len(buckets)),
        "num_tensors": num_tensors,
        "size_bytes": np.bincount(owner, weights=sent, minlength=len(buckets)).astype(np.int64),
        **dict.fromkeys(("init_ns", "wait_ns", "queue_ns", "copy_ns"), nothing),
        "transfer_ns": dur_ns,
    }
    missing = pd.array([None] * len(members), dtype="Int64")
    unknown = ("negotiation_start_ns", "negotiation_ns", "first_rank", "last_rank", "last_after_ns")
    uses = {name: values[owner] for name, values in of_bucket.items()} | {
        "tensor": pd.Categorical.from_codes(
            members, categories=pd.Index(segment.tensors, dtype=str)
        ),
        "occurrence": _occurrences(members),
        "fusion_id": owner,
        "size_bytes": sent,
        "dtype": "",
        "num_ticks": np.zeros(len(members), dtype=np.int64),
        **dict.fromkeys(unknown, missing),
    }
    events = {name: uses[name] for name in _OF_EVENTS} | {
        "source": "timeline",
        "rank": np.zeros(len(members), dtype=np.int64),
        "phase": "operation",
        "activity": COLLECTIVE,
        "size_bytes": pd.array(sent, dtype="Int64"),
    }
    return {
        EVENTS.name: common | events,
        TENSOR_USES.name: common | uses,
        EXECUTIONS.name: common | executions,
    }


def _occurrences(members: np.ndarray) -> np.ndarray:
    """How often each entry stood there before."""
    return pd.Series(members).groupby(members).cumcount().to_numpy(dtype=np.int64)


def timeline_file_row(pass_id: str, segment: str, summary: "Summary") -> pd.DataFrame:
    """What a timeline file says of itself as a row of TIMELINES."""
    facts = summary.facts
    rows = Rows(TIMELINES)
    rows.add(
        pass_id=pass_id,
        segment=segment,
        writer=facts.writer,
        time_zero=facts.time_zero,
        epoch_ns=None if summary.epoch_us is None else summary.epoch_us * 1000,
        text_bytes=summary.size_bytes,
        num_events=facts.num_events,
        span_ns=facts.span_us * 1000,
        backends=", ".join(facts.backends),
        frameworks=", ".join(facts.frameworks),
        np=facts.size,
        np_reason=facts.size_reason,
        num_tensors=facts.num_tensors,
        num_executions=facts.num_executions,
        num_fused_executions=facts.num_fused_executions,
        num_phantoms=facts.num_phantoms,
        num_errors=facts.num_errors,
        num_recordings=facts.num_recordings,
        num_time_jumps=facts.num_time_jumps,
        rank_ticks=facts.rank_evidence.kind,
        rank_ticks_sentence=facts.rank_evidence.sentence,
        autotuned=facts.autotuned,
        torus=facts.torus,
    )
    return rows.frame()
