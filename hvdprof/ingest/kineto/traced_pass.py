"""The pass that profiler traces are of and their tables, also as a run of their own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hvdprof.collect.host_facts import usable_cores
from hvdprof.errors import HvdprofError
from hvdprof.ingest.kineto.rank_work import allocation_share
from hvdprof.ingest.kineto.trace_file import TraceFile, read_trace_file
from hvdprof.ingest.kineto.trace_set import TraceSet, trace_set
from hvdprof.ingest.kineto.trace_tables import trace_blocks
from hvdprof.ingest.storage.blocks import Block
from hvdprof.ingest.timeline.machine_code import has_numba
from hvdprof.model.cell_key import UNKNOWN
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.schema import Table
from hvdprof.model.tables.run_tables import SEGMENTS, STEPS
from hvdprof.rundir.manifest import Mode, PassRecord, SegmentRecord, Status
from hvdprof.rundir.plan import Segment
from hvdprof.rundir.regular_file import shown_name
from hvdprof.units import percent

SEGMENT = "main"

_ALLOCATES_MUCH = 0.05
"""A smaller share of the step time is not worth a sentence."""

_MOST_AT_ONCE = 8
"""Each takes some 20 MB beside what it keeps."""

FileProgress = Callable[[Path, int], None]
"""Called with the file, and the bytes of all files read so far."""


def traced_pass(
    size: int, name: str, controller: str, engine: str, batch_size: int = 0
) -> PassRecord:
    """A pass of one segment that torch.profiler recorded.

    Its steps count as those of a throughput pass, so that the analysis of steps applies; the
    verdict says that the profiler was on.

    Args:
        size: Ranks of the job.
        name: A name for the job.
        controller: What moved the data; empty where unknown.
        engine: What reduces the gradients.
        batch_size: Samples per rank and step; 0 where unknown.
    """
    segment = Segment(
        id=SEGMENT,
        engine=engine,
        model=name,
        compression=UNKNOWN,
        reduction=UNKNOWN,
        batch_size=batch_size,
        image_size=0,
        num_warmup_batches=0,
        num_steps=None,
        max_seconds=None,
        timeline=False,
    )
    return PassRecord(
        id=f"01-np{size}-traces",
        mode=Mode.THROUGHPUT,
        size=size,
        repeat=1,
        controller=controller or UNKNOWN,
        oversubscribed=False,
        pinned=False,
        segments=[SegmentRecord(segment=segment, status=Status.DONE)],
        status=Status.DONE,
    )


def read_traces(
    paths: Sequence[Path],
    notes: list[Note],
    *,
    progress: FileProgress | None = None,
    jobs: int | None = None,
) -> TraceSet:
    """The traces of one job; what cannot be read is noted.

    Several are read at once, by threads: compiled code and decompression leave Python to the
    others. Processes were no faster, and took a quarter more of the processor and twice the memory.

    Args:
        paths: The traces.
        notes: Receives sentences on what is left out.
        progress: Called while files are read, by one thread at a time.
        jobs: How many are read at once, at most eight; as many as there are cores if None.

    Raises:
        UnreadableInputError: Several recordings are possible, or no trace is whole.
    """
    lock, done = threading.Lock(), dict.fromkeys(paths, 0)

    def read(path: Path) -> TraceFile | str:
        def within(number: int, size: int) -> None:
            with lock:
                done[path] = number
                if progress is not None:
                    progress(path, sum(done.values()))

        try:
            return read_trace_file(path, progress=within)
        except HvdprofError as error:
            return error.message
        except OSError as error:
            return f"{shown_name(path)}: {error.strerror or error}."

    number = min(jobs or usable_cores(), _MOST_AT_ONCE) if has_numba() else 1
    with ThreadPoolExecutor(number) as pool:
        found = dict(zip(paths, pool.map(read, paths), strict=True))
    files = [(path, one) for path, one in found.items() if isinstance(one, TraceFile)]
    traces = trace_set(files, {path: one for path, one in found.items() if isinstance(one, str)})
    notes += [Note(NoteCode.LEFT_OUT, reason) for reason in traces.left_out.values()]
    notes += traces.notes
    notes += _allocation_notes(traces)
    return traces


def _allocation_notes(found: TraceSet) -> list[Note]:
    """That memory is allocated within the steps; of the rank that spends the largest share."""
    shares = {rank: allocation_share(one) for rank, one in found.ranks.items()}
    rank = max(shares, key=shares.__getitem__)
    if shares[rank] < _ALLOCATES_MUCH:
        return []
    whose = f" of rank {rank}" if found.size > 1 else ""
    text = (
        f"cudaFree and cudaMalloc take {percent(shares[rank])} of the step time{whose} on the "
        "host: PyTorch's cache of GPU memory is given back and allocated again. If memory is "
        "nearly full, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, else look for "
        "torch.cuda.empty_cache() in the loop."
    )
    return [Note(NoteCode.ALLOCATION, text, rank=rank, value=f"{shares[rank]:.3f}")]


def traced_blocks(found: TraceSet, record: PassRecord) -> list[tuple[Table, Block]]:
    """The blocks of all tables of some traces, SEGMENTS among them.

    Args:
        found: The traces.
        record: Their pass.
    """
    segment = record.segments[0].segment
    blocks = list(trace_blocks(found, (record.id, segment.id), segment.engine))
    samples = max(segment.batch_size, 1)
    counted = [
        (table, {**block, "samples": block["samples"] * samples} if table is STEPS else block)
        for table, block in blocks
    ]
    number = sum(table is STEPS for table, _ in blocks)
    return [(SEGMENTS, segment_row(record, number)), *counted]


def segment_row(record: PassRecord, num_ranks: int) -> Block:
    """The row of SEGMENTS of a pass of one segment, of which so many ranks have steps."""
    segment = record.segments[0].segment
    return {
        "pass_id": record.id,
        "segment": segment.id,
        "mode": record.mode,
        "repeat": record.repeat,
        "engine": segment.engine,
        "model": segment.model,
        "size": record.size,
        "compression": segment.compression,
        "reduction": segment.reduction,
        "batch_size": segment.batch_size,
        "image_size": segment.image_size,
        "status": record.segments[0].status,
        "num_ranks_recorded": num_ranks,
        **dict.fromkeys(("num_tensors", "gradient_bytes", "sent_bytes"), 0),
        "oversubscribed": record.oversubscribed,
        "pinned": record.pinned,
        **dict.fromkeys(("busy_cores", "startup_ns"), float("nan")),
    }
