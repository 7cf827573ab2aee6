"""The collectives of one GPU: kernels of NCCL with what the calls that launched them state.

Tested in ``tests/ingest/test_rank_calls.py``.
"""

import numpy as np
import pandas as pd

from hvdprof.ingest.kineto.busy_intervals import covered_ns
from hvdprof.ingest.kineto.collective_calls import collective_of
from hvdprof.ingest.nsys.export_file import Export
from hvdprof.ingest.nsys.nccl_payloads import NcclRange
from hvdprof.ingest.nsys.step_ranges import only_process
from hvdprof.ingest.tables.collective_matching import POINT_TO_POINT
from hvdprof.model.arrays import Int64s
from hvdprof.model.tables.rank_collective_tables import NO_MATCH, NSYS, RANK_COLLECTIVES

Place = tuple[str, int, int, int | None]


def gpu_calls(
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
