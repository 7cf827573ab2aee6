"""An export to tables: computation, communication, what is exposed of it, and calls of NCCL."""

from pathlib import Path

import numpy as np
import pandas as pd

from hvdprof.ingest.kineto.busy_intervals import covered_ns, merged, uncovered
from hvdprof.ingest.kineto.collective_calls import collective_of
from hvdprof.ingest.nsys.export_database import is_nccl_kernel
from hvdprof.ingest.nsys.export_file import Export, read_export
from hvdprof.ingest.nsys.gpu_calls import gpu_calls
from hvdprof.ingest.nsys.step_overlap import GpuKernels, add_steps
from hvdprof.ingest.nsys.step_ranges import only_process
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.model.arrays import Int64s
from hvdprof.model.tables.nsys_tables import (
    NSYS_GPUS,
    NSYS_NCCL_CALLS,
    NSYS_NCCL_KERNELS,
    NSYS_STEPS,
)
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES
from hvdprof.rundir.file_names import shown_name


def read_nsys_export(path: Path) -> list[tuple[str, pd.DataFrame]]:
    """The tables of NSYS_TABLES of a file, and its RANK_COLLECTIVES, unmatched, by name.

    Raises:
        UnreadableInputError: It is damaged or holds no kernels.
    """
    export = read_export(path)
    is_nccl = np.isin(
        export.name_ids,
        [number for number, name in export.names.items() if is_nccl_kernel(name)],
    )
    gpus, kernels, of_steps = Rows(NSYS_GPUS), Rows(NSYS_NCCL_KERNELS), Rows(NSYS_STEPS)
    file, calls = shown_name(path), []
    places = np.unique(np.stack([export.pids, export.devices], axis=1), axis=0)
    for pid, device in places.tolist():
        own = (export.pids == pid) & (export.devices == device)
        rank = export.nccl.rank_of(pid, device)
        computing = merged(export.starts[own & ~is_nccl], export.ends[own & ~is_nccl])
        communicating = merged(export.starts[own & is_nccl], export.ends[own & is_nccl])
        span = int(export.ends[own].max() - export.starts[own].min())
        busy = _length(merged(export.starts[own], export.ends[own]))
        place, num_steps = (file, pid, device, rank), 0
        if steps := only_process(export.steps, pid):
            of_gpu = GpuKernels(
                export.launches[own], export.starts[own], export.ends[own], is_nccl[own]
            )
            num_steps = add_steps(of_steps, place, steps, of_gpu, computing)
        gpus.add(
            file=file,
            pid=pid,
            device=device,
            rank=rank,
            num_kernels=int(own.sum()),
            num_nccl_kernels=int((own & is_nccl).sum()),
            num_steps=num_steps,
            num_nccl_calls=export.num_nccl_ranges.get(pid, 0),
            span_ns=span,
            computing_ns=_length(computing),
            communicating_ns=_length(communicating),
            exposed_ns=_length(uncovered(communicating, computing)),
            idle_ns=span - busy,
        )
        _add_kernels(kernels, export, own & is_nccl, computing, place)
        calls.append((RANK_COLLECTIVES.name, gpu_calls(export, own & is_nccl, computing, place)))
    return [
        (NSYS_GPUS.name, gpus.frame()),
        (NSYS_NCCL_KERNELS.name, kernels.frame()),
        (NSYS_NCCL_CALLS.name, _calls(export, file)),
        (NSYS_STEPS.name, of_steps.frame()),
        *calls,
    ]


def _calls(export: Export, file: str) -> pd.DataFrame:
    rows = Rows(NSYS_NCCL_CALLS)
    for call in sorted(export.nccl.calls, key=lambda call: (call.pid, -call.number, call.function)):
        rows.add(
            file=file,
            pid=call.pid,
            function=call.function,
            communicator=call.communicator,
            rank=call.member.rank if call.member else None,
            num_ranks=call.member.num_ranks if call.member else None,
            message_bytes=call.message_bytes,
            size_bytes=call.size_bytes,
            number=call.number,
        )
    return rows.frame()


def _add_kernels(
    rows: Rows,
    export: Export,
    chosen: np.ndarray,
    computing: tuple[Int64s, Int64s],
    place: tuple[str, int, int, int | None],
) -> None:
    file, pid, device, rank = place
    for number in np.unique(export.name_ids[chosen]).tolist():
        own = chosen & (export.name_ids == number)
        starts, ends = export.starts[own], export.ends[own]
        hidden = covered_ns(starts, ends, computing)
        name = export.names[number]
        rows.add(
            file=file,
            pid=pid,
            device=device,
            rank=rank,
            name=name,
            collective=collective_of(name),
            number=len(starts),
            total_ns=int((ends - starts).sum()),
            median_ns=float(np.median(ends - starts)),
            exposed_ns=int((ends - starts - hidden).sum()),
        )


def _length(intervals: tuple[Int64s, Int64s]) -> int:
    starts, ends = intervals
    return int((ends - starts).sum())
