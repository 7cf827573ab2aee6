"""What a synthetic run holds: its passes, their segments, and the true times of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.plan import Segment

WALL_OF_CLOCK_ZERO_NS = 1_795_000_000_000_000_000
HEADER_NS = 1_000_000_000
FIRST_STEP_NS = 5_000_000_000
PARTS = ("data", "forward", "backward", "blocked", "optimizer", "outside")


def typical_parts(step_ms: ArrayLike, blocked_ms: ArrayLike = 0.0) -> dict[str, ArrayLike]:
    """The parts of steps of that length: what is not blocked is split 5/30/50/10/5 percent."""
    rest = np.asarray(step_ms, dtype=float) - np.asarray(blocked_ms, dtype=float)
    shares = {"data": 0.05, "forward": 0.3, "backward": 0.5, "optimizer": 0.1, "outside": 0.05}
    return {part: rest * share for part, share in shares.items()} | {"blocked": blocked_ms}


@dataclass(kw_only=True)
class SegmentSpec:
    """A segment and what its ranks recorded.

    ``parts_ms`` gives the length of each of ``PARTS``, a missing one is 0; a step is as long as
    their sum. ``ready_ms`` are offsets from the step's start, ``[ranks, steps, tensors]``; by
    default the gradients get ready evenly over backward. ``timeline`` writes a Horovod timeline in
    which the collectives of a step fill the blocked time of rank 0. ``buckets`` are those of DDP in
    every step: offset from the step's start and length in ms, and the places of the tensors.
    ``samples`` [ranks, steps] are those of each rank and step, else the batch size. Where
    ``seen_inside`` is false steps have no phases and no observed blocked time, as of a compiled
    TensorFlow step on a GPU.
    """

    model: str = "mnist"
    engine: str = "horovod"
    compression: str = "none"
    reduction: str = "average"
    batch_size: int = 32
    image_size: int = 28
    num_warmup_batches: int = 2
    num_steps: int = 60
    parts_ms: Mapping[str, ArrayLike] = field(default_factory=lambda: typical_parts(10.0))
    loss: ArrayLike | None = None
    tensors: Mapping[str, int] = field(
        default_factory=lambda: {"allreduce.fc.weight": 4000, "allreduce.fc.bias": 40}
    )
    ready_ms: ArrayLike | None = None
    timeline: bool = False
    buckets: Sequence[tuple[float, float, Sequence[int]]] = ()
    status: str = "done"
    failure: Failure | None = None
    seen_inside: bool = True
    samples: NDArray[np.int64] | None = None

    @property
    def id(self) -> str:
        """The id of the segment in the plan."""
        return f"{self.model}-{self.engine}-{self.compression}-{self.reduction}"

    def planned(self) -> Segment:
        """The segment as the plan and the manifest hold it."""
        return Segment(
            id=self.id,
            engine=self.engine,
            model=self.model,
            compression=self.compression,
            reduction=self.reduction,
            batch_size=self.batch_size,
            image_size=self.image_size,
            num_warmup_batches=self.num_warmup_batches,
            num_steps=self.num_steps,
            max_seconds=None,
            timeline=self.timeline,
        )

    def lengths_ns(self, size: int) -> dict[str, NDArray[np.int64]]:
        """The length of every part, one value a rank and step, warm-up batches included."""
        shape = (size, self.num_warmup_batches + self.num_steps)
        return {
            part: np.broadcast_to(
                np.round(np.asarray(self.parts_ms.get(part, 0.0)) * 1e6), shape
            ).astype(np.int64)
            for part in PARTS
        }


@dataclass(kw_only=True)
class PassSpec:
    """One launch: ``hosts`` names the host of each rank, ``offset_ms`` what takes its clock to
    rank 0's at the start, ``drift_ms`` by how much that changed until the end."""

    size: int = 1
    mode: str = "throughput"
    repeat: int = 1
    segments: Sequence[SegmentSpec] = field(default_factory=lambda: [SegmentSpec()])
    status: str = "done"
    oversubscribed: bool = False
    pinned: bool = True
    hosts: Sequence[str] | None = None
    offset_ms: ArrayLike = 0.0
    drift_ms: ArrayLike = 0.0
    clock_error_ns: int = 0
    num_threads: Sequence[int] | None = None
    missing_ranks: Sequence[int] = ()
    with_end: bool = True
    other_cpu_cores: float | None = 0.02
    steal_share: float | None = 0.0


def segment_length_ns(segment: SegmentSpec, size: int) -> int:
    """The true time from the first step's start to the start of the next segment."""
    lengths = np.sum(list(segment.lengths_ns(size).values()), axis=0)
    return int(lengths.sum(axis=1).max()) + 1_000_000_000
