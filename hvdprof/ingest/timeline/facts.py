"""What a timeline file says of the job that wrote it, and what it cannot say."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hvdprof.ingest.timeline.raw import RawTimeline
from hvdprof.ingest.timeline.semantics import Semantics
from hvdprof.ingest.timeline.ticks import Cycle
from hvdprof.ingest.timeline.uses import ACTIVITY, NONE, OPERATION, PHANTOM
from hvdprof.ingest.timeline.vocabulary import (
    CACHED,
    FUSION_BUFFER,
    backends_of,
    frameworks_of,
    is_known_activity,
)

SINCE_INIT = "since hvd.init()"
SINCE_BOOT = "since boot"
SINCE_RECORDING = "since the recording began"

# Horovod negotiates its first tensor soon after it has opened the file.
_LONGEST_START_US = 600_000_000
_FEW_INITS = 2
_ENOUGH_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class RankEvidence:
    """Whether the file names ranks where the response cache would hide them.

    Counted over uses after the first of tensors that the response cache keeps (CACHED).
    """

    num_later_uses: int
    num_told: int

    @property
    def kind(self) -> str:
        """``none`` (no tensor is used twice), ``first use``, ``some uses`` or ``every use``."""
        if not self.num_later_uses:
            return "none"
        if not self.num_told:
            return "first use"
        return "every use" if self.num_told == self.num_later_uses else "some uses"

    @property
    def sentence(self) -> str:
        """What this means for naming a late rank, one sentence."""
        return {
            "none": "This timeline uses no cached tensor twice.",
            "first use": "This timeline holds no rank ticks after the first use of each tensor, "
            "so it cannot name a late rank.",
            "some uses": "This timeline holds rank ticks for some later uses of tensors only.",
            "every use": "This timeline holds rank ticks for every use of its tensors.",
        }[self.kind]


@dataclass(frozen=True, slots=True)
class TimelineFacts:
    """What the file says of itself; nothing here is asked of another file.

    Attributes:
        writer: Versions of Horovod that write such a file.
        time_zero: What time 0 of the file is: one of the ``SINCE_...``.
        backends: Libraries that moved data (MPI, GLOO, NCCL, CCL, DDL, MLSL).
        frameworks: Frameworks whose names of tensors are found.
        uses_by_collective: Number of uses of each collective.
        num_tensors: Tensors with a use.
        num_executions: Executions of one or several tensors.
        num_fused_executions: Those of several tensors.
        num_phantoms: Negotiations without an operation.
        num_errors: Operations that Horovod refused.
        size: Number of ranks as far as ticks tell; ``None`` without any tick.
        size_reason: How that is known, or why not.
        cycle: Length of a cycle of Horovod's loop.
        ranks_told: Whether ranks are named after the first use of a tensor.
        autotuned: Fusion buffers were made again and again, as autotuning does.
        cache_misses: The response cache missed in at least half of the rounds, though not always.
        torus: Stages are those of the torus allreduce, whose stamps do not say what they cost.
        unknown_activities: Activities that no known version of Horovod writes, with their number.
        fewer_ranks: Tensors that were negotiated by fewer ranks than ``size``.
    """

    writer: str
    time_zero: str
    backends: tuple[str, ...]
    frameworks: tuple[str, ...]
    uses_by_collective: Mapping[str, int]
    num_tensors: int
    num_executions: int
    num_fused_executions: int
    num_phantoms: int
    num_errors: int
    size: int | None
    size_reason: str
    cycle: Cycle
    ranks_told: RankEvidence
    autotuned: bool
    cache_misses: bool
    torus: bool
    unknown_activities: Mapping[str, int]
    fewer_ranks: int


def facts_of(known: Semantics) -> TimelineFacts:
    """The facts of a file."""
    raw, roles = known.raw, known.roles
    time_zero = _time_zero(raw)
    activities = _counted(raw, roles.role == ACTIVITY)
    collectives = _uses_by_collective(known)
    size, reason = _size(known)
    autotuned = _makes_buffers_again(known)
    num_members = np.bincount(known.batches.batch, minlength=1)
    return TimelineFacts(
        writer=_writer(raw, time_zero),
        time_zero=time_zero,
        backends=backends_of(activities),
        frameworks=frameworks_of(known.tensors.names),
        uses_by_collective=collectives,
        num_tensors=len(np.unique(known.uses.tensor)),
        num_executions=len(known.batches),
        num_fused_executions=int((num_members > 1).sum()),
        num_phantoms=int((roles.role == PHANTOM).sum()),
        num_errors=_counted(raw, roles.role == OPERATION).get("ERROR", 0),
        size=size,
        size_reason=reason,
        cycle=known.cycle,
        ranks_told=_ranks_told(known),
        autotuned=autotuned,
        cache_misses=_misses_often(known) and not autotuned,
        torus=_is_torus(known),
        unknown_activities={
            name: number for name, number in activities.items() if not is_known_activity(name)
        },
        fewer_ranks=_tensors_of_fewer_ranks(known, size),
    )


def _time_zero(raw: RawTimeline) -> str:
    if raw.epochs:
        return SINCE_INIT
    earliest = raw.range_us[0] if raw.range_us else 0
    return SINCE_BOOT if earliest >= _LONGEST_START_US else SINCE_RECORDING


def _writer(raw: RawTimeline, time_zero: str) -> str:
    if time_zero == SINCE_INIT:
        return "Horovod 0.20.1 or later"
    if time_zero == SINCE_BOOT:
        return "Horovod 0.16 to 0.20.0"
    if len(raw.marks):
        return "Horovod 0.16 to 0.20.0, on a machine booted minutes before"
    return "Horovod before 0.16, or 0.16 to 0.20.0 on a machine booted minutes before"


def _counted(raw: RawTimeline, flags: NDArray[np.bool_]) -> dict[str, int]:
    counts = np.bincount(raw.slices.name[flags], minlength=len(raw.names))
    return {name: int(number) for name, number in zip(raw.names, counts, strict=True) if number > 0}


def _uses_by_collective(known: Semantics) -> dict[str, int]:
    counts: dict[str, int] = {}
    numbers = np.bincount(known.collective_of_use(), minlength=len(known.collectives))
    for name, number in zip(known.collectives, numbers.tolist(), strict=True):
        if number:
            counts[name] = counts.get(name, 0) + number
    return counts


def _size(known: Semantics) -> tuple[int | None, str]:
    ranks = np.unique(known.raw.ticks.rank[known.places.use != NONE])
    if not len(ranks):
        return None, "the file names no rank"
    highest = int(ranks[-1])
    reason = f"the highest rank it names is {highest}"
    if len(ranks) <= highest:
        reason += f", though it names {len(ranks)} ranks only"
    return highest + 1, reason


def _later_cached_uses(known: Semantics) -> NDArray[np.int64]:
    if not len(known.uses):
        return np.empty(0, dtype=np.int64)
    cached = np.asarray([name in CACHED for name in known.collectives], dtype=bool)
    later = (known.uses.occurrence > 0) & cached[known.collective_of_use()]
    return np.flatnonzero(later & (known.uses.negotiation != NONE))


def _ranks_told(known: Semantics) -> RankEvidence:
    later = _later_cached_uses(known)
    return RankEvidence(len(later), int((known.readiness.num_ticks[later] > 0).sum()))


def _misses_often(known: Semantics) -> bool:
    """Whether some tensors, but not all, were negotiated in full in at least half of the rounds.

    A round is one occurrence number. A stall or a join does the same to a few rounds only.
    """
    later = _later_cached_uses(known)
    told = known.readiness.num_ticks[later] > 0
    rounds = np.unique(known.uses.occurrence[later])
    rounds_told = np.unique(known.uses.occurrence[later][told])
    several = len(rounds) >= _ENOUGH_ROUNDS
    return bool(several and not told.all() and 2 * len(rounds_told) >= len(rounds))


def _makes_buffers_again(known: Semantics) -> bool:
    """Whether fusion buffers were made for tensors that had been used before, several times."""
    raw, roles = known.raw, known.roles
    is_init = np.asarray([name == FUSION_BUFFER for name in raw.names] + [False], dtype=bool)
    again = is_init[raw.slices.name] & (roles.occurrence > 0)
    return len(np.unique(known.batch[again])) > _FEW_INITS


def _is_torus(known: Semantics) -> bool:
    """Whether a tensor's NCCL_ALLREDUCE begins before its NCCL_REDUCESCATTER.

    The torus allreduce emits its cross-node stage first, stamped around the launch alone
    (nccl_operations.cc, NCCLTorusAllreduce).
    """
    raw, roles = known.raw, known.roles
    if not {"NCCL_ALLREDUCE", "NCCL_REDUCESCATTER"} <= set(raw.names):
        return False
    across = _rows_named(known, "NCCL_ALLREDUCE")
    within = _rows_named(known, "NCCL_REDUCESCATTER")
    of_across, of_within = roles.operation[across], roles.operation[within]
    _, at_across, at_within = np.intersect1d(of_across, of_within, return_indices=True)
    return bool(np.any(across[at_across] < within[at_within]))


def _rows_named(known: Semantics, name: str) -> NDArray[np.int64]:
    code = known.raw.names.index(name)
    rows = np.flatnonzero((known.raw.slices.name == code) & (known.roles.role == ACTIVITY))
    return np.asarray(rows[known.roles.operation[rows] != NONE])


def _tensors_of_fewer_ranks(known: Semantics, size: int | None) -> int:
    if size is None:
        return 0
    uses, ticks = known.uses, known.readiness.num_ticks
    complete = (uses.operation != NONE) & (uses.negotiation != NONE)
    fewer = complete & (ticks > 0) & (ticks < size)
    return len(np.unique(uses.tensor[fewer]))
