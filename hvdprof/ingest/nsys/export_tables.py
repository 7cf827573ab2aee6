"""An export to tables: computation, communication, what is exposed of it, and calls of NCCL.

A kernel belongs to the step in which the host launched it: it may run when the host is already in
the next one. Computation of any step hides communication. A kernel of NCCL belongs to the call in
whose range it was launched.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from hvdprof.ingest.kineto.busy_intervals import covered_ns, merged, uncovered
from hvdprof.ingest.kineto.collective_calls import collective_of
from hvdprof.ingest.nsys.export_file import Export, StepRanges, only_process, read_export
from hvdprof.ingest.nsys.nccl_payloads import NcclRange, is_nccl_kernel
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.collective_matching import POINT_TO_POINT
from hvdprof.model.arrays import Int64s
from hvdprof.model.tables.nsys_tables import (
    NSYS_GPUS,
    NSYS_NCCL_CALLS,
    NSYS_NCCL_KERNELS,
    NSYS_STEPS,
)
from hvdprof.model.tables.rank_collective_tables import NO_MATCH, NSYS, RANK_COLLECTIVES
from hvdprof.rundir.regular_file import shown_name

Intervals = tuple[Int64s, Int64s]
Place = tuple[str, int, int, int | None]


def read_nsys_export(path: Path) -> list[tuple[str, pd.DataFrame]]:
    """The tables of NSYS_TABLES of a file, and its RANK_COLLECTIVES, unmatched, by name.

    Raises:
        UnreadableInputError: It is damaged or holds no kernels.
    """
    export = read_export(path)
    is_nccl = np.isin(
        export.name_ids, [number for number, name in export.names.items() if is_nccl_kernel(name)]
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
            of_gpu = _GpuKernels(
                export.launches[own], export.starts[own], export.ends[own], is_nccl[own]
            )
            num_steps = _add_steps(of_steps, place, steps, of_gpu, computing)
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
        calls.append((RANK_COLLECTIVES.name, _gpu_calls(export, own & is_nccl, computing, place)))
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
    rows: Rows, export: Export, chosen: np.ndarray, computing: Intervals, place: Place
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


def _length(intervals: Intervals) -> int:
    starts, ends = intervals
    return int((ends - starts).sum())


@dataclass(frozen=True, slots=True)
class _GpuKernels:
    """The kernels of one GPU: when each was launched and ran, and whether it communicates."""

    launches: Int64s
    starts: Int64s
    ends: Int64s
    is_nccl: np.ndarray


def _add_steps(
    rows: Rows, place: Place, steps: StepRanges, kernels: _GpuKernels, computing: Intervals
) -> int:
    """Add a row of NSYS_STEPS for each step with kernels of one GPU; gives their number."""
    file, pid, device, rank = place
    starts, ends, is_nccl = kernels.starts, kernels.ends, kernels.is_nccl
    of_step = steps.step_of(kernels.launches)
    order = np.argsort(of_step, kind="stable")
    bounds = np.searchsorted(of_step[order], np.arange(len(steps.starts) + 1))
    members = [order[low:high] for low, high in pairwise(bounds.tolist())]
    busy = [merged(starts[own[is_nccl[own]]], ends[own[is_nccl[own]]]) for own in members]
    hidden = covered_ns(
        np.concatenate([begin for begin, _ in busy]),
        np.concatenate([end for _, end in busy]),
        computing,
    )
    overlapped = np.split(hidden, np.cumsum([len(begin) for begin, _ in busy])[:-1])
    number = 0
    for step, own in enumerate(members):
        if not len(own):
            continue
        number += 1
        alone = own[~is_nccl[own]]
        communicating, covered = _length(busy[step]), int(overlapped[step].sum())
        rows.add(
            file=file,
            pid=pid,
            device=device,
            rank=rank,
            step=int(steps.numbers[step]),
            range_name=steps.name,
            start_ns=int(steps.starts[step]),
            host_ns=int(steps.ends[step] - steps.starts[step]),
            num_kernels=len(own),
            span_ns=int(ends[own].max() - starts[own].min()),
            computing_ns=_length(merged(starts[alone], ends[alone])),
            communicating_ns=communicating,
            exposed_ns=communicating - covered,
            overlapped_ns=covered,
        )
    return number


def _gpu_calls(
    export: Export, chosen: np.ndarray, computing: tuple[Int64s, Int64s], place: Place
) -> pd.DataFrame:
    """RANK_COLLECTIVES of a GPU, unmatched; empty where its rank is unknown.

    A kernel belongs to the call in whose range the host launched it. Kernels that NCCL launches at
    the end of a group do to their calls in order, where these are as many.

    Args:
        export: The export.
        chosen: Which of its kernels are NCCL's on this GPU.
        computing: When the GPU computes: disjoint, ascending.
        place: File, process, device and rank.
    """
    file, pid, device, rank = place
    linked: list[tuple[int, NcclRange]] = []
    kernels = np.flatnonzero(chosen)
    kernels = kernels[np.argsort(export.launches[kernels], kind="stable")]
    of_kernel = np.array([collective_of(export.names[int(at)]) for at in export.name_ids[kernels]])
    for kind in (
        {*of_kernel.tolist()} - {"", "SENDRECV", *POINT_TO_POINT} if rank is not None else ()
    ):
        own = kernels[of_kernel == kind]
        ranges = [
            one
            for one in export.nccl.placed
            if one.alike.pid == pid and collective_of(one.alike.function) == kind
            and one.alike.member and one.alike.member.device in (None, device)
        ]  # fmt: skip
        linked += _linked(own, export.launches[own], ranges)
    if not linked:
        return RANK_COLLECTIVES.empty()
    linked.sort(key=lambda pair: int(export.launches[pair[0]]))
    at = np.array([kernel for kernel, _ in linked])
    starts, ends = export.starts[at], export.ends[at]
    alike = [one.alike for _, one in linked]
    sizes = [one.member.num_ranks if one.member else None for one in alike]
    steps = only_process(export.steps, pid)
    of_step = np.full(len(at), -1) if steps is None else steps.step_of(export.launches[at])
    numbers = of_step if steps is None else np.where(of_step < 0, -1, steps.numbers[of_step])
    return RANK_COLLECTIVES.frame(
        {
            "pass_id": file,
            "segment": "main",
            "source": NSYS,
            "rank": rank,
            "step": numbers,
            "group": [one.communicator for one in alike],
            "group_size": pd.array(sizes, dtype="Int64"),
            "seq": pd.NA,
            "match_id": NO_MATCH,
            "collective": [collective_of(one.function) for one in alike],
            "name": [export.names[int(name)] for name in export.name_ids[at]],
            "dtype": "",
            "size_bytes": pd.array([one.size_bytes for one in alike], dtype="Int64"),
            "submitted_ns": export.launches[at],
            "start_ns": starts,
            "arrival_ns": starts,
            "end_ns": ends,
            "exposed_ns": ends - starts - covered_ns(starts, ends, computing),
            "state": "completed",
            "clock_error_ns": 0,
        }
    )


def _linked(
    kernels: Int64s, launches: Int64s, ranges: list[NcclRange]
) -> list[tuple[int, NcclRange]]:
    """Kernels, by launch, with the call of each; kernels of no call are left out."""
    if len(kernels) == len(ranges):
        return list(zip(kernels.tolist(), ranges, strict=True))
    begins = np.array([one.start_ns for one in ranges], dtype=np.int64)
    before = np.searchsorted(begins, launches, side="right") - 1
    return [
        (kernel, ranges[number])
        for kernel, number, launch in zip(
            kernels.tolist(), before.tolist(), launches.tolist(), strict=True
        )
        if number >= 0 and launch <= ranges[number].end_ns
    ]
