"""Exposed and overlapped communication of each step and GPU of an export.

A kernel belongs to the step in which the host launched it: it may run when the host is already in
the next one. Computation of any step hides communication.

Tested in ``tests/ingest/nsys/test_step_ranges.py``.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hvdprof.ingest.kineto.busy_intervals import covered_ns, merged
from hvdprof.ingest.nsys.step_ranges import StepRanges
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.model.arrays import Int64s

Intervals = tuple[Int64s, Int64s]
Place = tuple[str, int, int, int | None]


@dataclass(frozen=True, slots=True)
class GpuKernels:
    """The kernels of one GPU: when each was launched and ran, and whether it communicates."""

    launches: Int64s
    starts: Int64s
    ends: Int64s
    is_nccl: np.ndarray


def add_steps(
    rows: Rows, place: Place, steps: StepRanges, kernels: GpuKernels, computing: Intervals
) -> int:
    """Add a row of NSYS_STEPS for each step with kernels of one GPU; gives their number.

    Args:
        rows: Of NSYS_STEPS.
        place: File, process, device and rank.
        steps: The steps of the process.
        kernels: Those of the GPU.
        computing: When the GPU computes: disjoint, ascending.
    """
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


def _length(intervals: Intervals) -> int:
    return int((intervals[1] - intervals[0]).sum())
