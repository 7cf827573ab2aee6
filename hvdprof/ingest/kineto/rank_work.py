"""What one rank did in each step of its trace: parts of the step, and when it waited.

Tested in ``tests/ingest/kineto/test_traced_run.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hvdprof.ingest.kineto.busy_intervals import covered_ns, merged
from hvdprof.ingest.kineto.collective_calls import CollectiveCall
from hvdprof.ingest.kineto.sharded_waits import SyncWait, waits_of_fsdp2
from hvdprof.ingest.kineto.trace_phases import (
    Piece,
    host_phases,
    on_gpu,
    waits_on_cpu,
    waits_on_gpu,
    with_copies_of_buckets,
)
from hvdprof.ingest.kineto.trace_set import RankTrace
from hvdprof.ingest.recorder.step_phases import summed_lengths
from hvdprof.model.step_parts import RECORDED_PARTS

BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class WorkedStep:
    """One step: its times in ns of the trace's clock, the length of its parts, and its pieces.

    ``waits`` are those of FSDP2, which waits several times.
    """

    number: int
    start_ns: int
    end_ns: int
    parts: Mapping[str, int]
    pieces: tuple[Piece, ...]
    waits: tuple[SyncWait, ...] = ()

    @property
    def released_ns(self) -> int:
        """The end of its last wait; its own end without one."""
        ends = [end for name, _, end in self.pieces if name == BLOCKED]
        return max(ends, default=self.end_ns)


def worked_steps(one: RankTrace) -> list[WorkedStep]:
    """The steps of a rank with phases and blocked time; the parts of each sum to its length."""
    calls_of: dict[int, list[CollectiveCall]] = {}
    for call, number in zip(one.calls, one.step_of, strict=True):
        calls_of.setdefault(number, []).append(call)
    phases_of = [host_phases(one.file, step) for step in one.steps.steps]
    starts, ends = (np.empty(0, np.int64),) * 2
    if one.file.on_gpu:
        backward = [piece for phases in phases_of for piece in phases.named("backward")]
        starts, ends = waits_on_gpu(one.file, backward, one.clock)
    hides_waits, is_of_fsdp2 = one.hides_waits, one.file.is_of_fsdp2
    found = []
    for step, phases in zip(one.steps.steps, phases_of, strict=True):
        sharded: tuple[SyncWait, ...] = ()
        if one.file.on_gpu:
            pieces = on_gpu(with_copies_of_buckets(one.file, step, phases), one.clock)
            low, high = np.searchsorted(ends, step.start_ns), np.searchsorted(starts, step.end_ns)
            waits = list(zip(starts[low:high].tolist(), ends[low:high].tolist(), strict=True))
        elif hides_waits:
            pieces, waits = list(phases.pieces), []
        elif is_of_fsdp2:
            calls = calls_of.get(step.number, ())
            sharded = tuple(waits_of_fsdp2(one.file, step, phases, calls))
            pieces, waits = list(phases.pieces), [(w.start_ns, w.end_ns) for w in sharded]
        else:
            pieces = list(phases.pieces)
            waits = waits_on_cpu(one.file, step, phases, calls_of.get(step.number, ()))
            pieces = _with_waits(pieces, waits)
        pieces += [(BLOCKED, start, end) for start, end in waits]
        inside = tuple(
            (name, max(start, step.start_ns), min(end, step.end_ns))
            for name, start, end in pieces
            if min(end, step.end_ns) > max(start, step.start_ns)
        )
        lengths = dict.fromkeys(RECORDED_PARTS, 0) | summed_lengths(inside)
        lengths["outside"] = step.end_ns - step.start_ns - sum(lengths.values())
        found.append(WorkedStep(step.number, step.start_ns, step.end_ns, lengths, inside, sharded))
    return found


def allocation_share(one: RankTrace) -> float:
    """The share of the steps, on the host, in cudaMalloc and cudaFree; 0 without steps."""
    steps = np.array(
        [(step.host_start_ns, step.host_end_ns) for step in one.steps.steps], dtype=np.int64
    ).reshape(-1, 2)
    total = int((steps[:, 1] - steps[:, 0]).sum())
    inside = covered_ns(steps[:, 0], steps[:, 1], merged(*one.file.allocations))
    return int(inside.sum()) / total if total else 0.0


def _with_waits(pieces: list[Piece], waits: list[tuple[int, int]]) -> list[Piece]:
    """Backward with the wait at its end, as the recorder has it: DDP waits within backward()."""
    ends = dict(waits)
    return [
        (name, start, ends.get(end, end) if name == "backward" else end)
        for name, start, end in pieces
    ]
