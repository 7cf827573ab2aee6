"""One training step of Horovod's background loop, over many draws at once.

As in ``RunLoopOnce``, ``ComputeResponseList`` and ``FuseResponses`` of Horovod 0.28.1:

1.  A cycle starts one cycle time after the start of the previous one, or when the previous one is
    finished, if that is later.
2.  The ranks negotiate. A cycle takes the gradients that all ranks had ready at its start.
3.  Taken gradients of one dtype are fused in order until the next one would exceed the fusion
    threshold. Gradients of another dtype are skipped meanwhile, as long as these and the open
    fusion stay below the threshold.
4.  All fusions of a cycle are executed one after the other, then the next cycle starts. With NCCL
    the loop does not wait for executions: they follow each other on each of its streams.

Gradients of one cycle are fused in the order of their ready times. Horovod takes the order of the
previous step, which is the same in a model whose backward does not change.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hvdprof.analyze.predict.costs.ddp_buckets import CostNs, StepCommunication, TimeParts
from hvdprof.model.arrays import Float64s, Int64s

DrawRows = np.typing.NDArray[np.intp]

DEFAULT_CYCLE_NS = 1_000_000.0
DEFAULT_FUSION_BYTES = 128 * 2**20
_ATOMIC_UNIT_BYTES = 8 * 64
"""64 elements of eight bytes, of which each rank of a host takes a whole number."""
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings of the loop, those of Horovod 0.28.1 where not given, and its own times.

    ``fusion_bytes`` is the threshold as Horovod rounds it (``rounded_threshold``), 0 for no
    fusion. ``negotiation_ns`` is the time of one negotiation, ``wakeup_ns`` how much later than
    planned a sleep of the loop ends; numbers or [draws]. ``num_streams`` is 0 where the loop
    executes collectives itself (CPU), else the number of NCCL streams.
    """

    cycle_ns: float = DEFAULT_CYCLE_NS
    fusion_bytes: int = DEFAULT_FUSION_BYTES
    negotiation_ns: float | Float64s = 0.0
    wakeup_ns: float | Float64s = 0.0
    num_streams: int = 0

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], ranks_per_host: int
    ) -> "LoopSettings":
        """The settings of a launch on CPUs.

        Args:
            environment: The variables of its ranks.
            ranks_per_host: Ranks per host.

        Raises:
            ValueError: A variable is no number.
        """
        cycle_ms = float(environment.get("HOROVOD_CYCLE_TIME") or DEFAULT_CYCLE_NS / 1e6)
        threshold = int(environment.get("HOROVOD_FUSION_THRESHOLD") or DEFAULT_FUSION_BYTES)
        # Horovod counts whole microseconds.
        return cls(int(cycle_ms * 1e3) * 1e3, rounded_threshold(threshold, ranks_per_host))


@dataclass(frozen=True, slots=True)
class CycleMarks:
    """The recorded starts of all cycles, ``CYCLE_START`` of a timeline: [marks], ascending, ns.

    They are on the axis of the ready times, the same for all draws. They replace the cycle time of
    the settings.
    """

    starts_ns: Float64s


def rounded_threshold(fusion_bytes: int, ranks_per_host: int) -> int:
    """The fusion threshold that Horovod uses: rounded up so that each rank of a host has its part.

    Args:
        fusion_bytes: HOROVOD_FUSION_THRESHOLD.
        ranks_per_host: Ranks per host, the same on all hosts.
    """
    unit = ranks_per_host * _ATOMIC_UNIT_BYTES
    return -(-fusion_bytes // unit) * unit


def simulate_loop(
    ready_ns: Float64s,
    size_bytes: ArrayLike,
    settings: LoopSettings,
    *,
    cost_ns: CostNs,
    cycle_start_ns: ArrayLike | CycleMarks,
    dtype_codes: Int64s | None = None,
) -> StepCommunication:
    """The communication of one step.

    Args:
        ready_ns: [draws, gradients] When the last rank has each gradient ready; on any axis.
        size_bytes: [gradients], or [draws, gradients]: what is sent, after compression.
        settings: Of the loop.
        cost_ns: Time of a collective.
        cycle_start_ns: The start of a cycle that takes no gradient of this step, a number or
            [draws]: ``random_phase`` where it is unknown, ``last_cycle_ns`` of the previous step
            where steps follow each other. Or the marks of all cycles.
        dtype_codes: [gradients] Gradients of equal numbers are fused; all where not given.
    """
    sizes = np.asarray(size_bytes, dtype=np.float64)
    codes = np.zeros(ready_ns.shape[1], dtype=np.int64)
    if dtype_codes is not None:
        codes = np.unique(dtype_codes, return_inverse=True)[1]
    # One row per gradient: the loop works on all draws of one gradient at a time.
    ready = np.ascontiguousarray(ready_ns.T)
    if (ready[1:] < ready[:-1]).any():
        order = np.argsort(ready, axis=0, kind="stable")
        ready = np.take_along_axis(ready, order, axis=0)
        codes = codes[order]
        sizes = np.take_along_axis(np.broadcast_to(sizes, ready_ns.shape).T, order, axis=0)
    elif sizes.ndim > 1:
        sizes = np.ascontiguousarray(sizes.T)
    shape = (int(codes.max()) + 1, len(ready_ns))
    loop = _Loop(settings, cost_ns, cycle_start_ns, shape)
    for number, (moment, size, code) in enumerate(zip(ready, sizes, codes, strict=True)):
        loop.take(moment, size, code, number)
    total = sizes.sum(axis=0)
    return loop.finished(ready[-1], np.array(np.broadcast_to(total, ready[-1].shape)))


def random_phase(rng: np.random.Generator, ready_ns: Float64s, settings: LoopSettings) -> Float64s:
    """[draws] The start of the last cycle before the first gradient, at an unknown phase.

    Uniform over one idle cycle.

    Args:
        rng: Source of randomness.
        ready_ns: [draws, gradients]
        settings: Of the loop.
    """
    behind = idle_period(settings) * (1 - rng.random(len(ready_ns)))
    return np.asarray(ready_ns.min(axis=1) - behind)


def idle_period(settings: LoopSettings) -> Float64s:
    """Time between the starts of two cycles that take nothing, ns; at least 1."""
    negotiation = np.asarray(settings.negotiation_ns, dtype=np.float64)
    slept = settings.cycle_ns + settings.wakeup_ns
    return np.maximum(np.where(negotiation < settings.cycle_ns, slept, negotiation), 1.0)


def next_cycle(
    planned_ns: Float64s,
    end_ns: Float64s,
    ready_ns: Float64s,
    wakeup_ns: Float64s,
    period_ns: Float64s,
) -> Float64s:
    """The start of the first cycle at which a gradient is ready; idle cycles pass before it.

    Args:
        planned_ns: Start of the previous cycle plus the cycle time.
        end_ns: End of the previous cycle, its executions included.
        ready_ns: When the gradient is ready.
        wakeup_ns: How much later than planned a sleep of the loop ends.
        period_ns: Time between the starts of two idle cycles.
    """
    following = np.where(end_ns < planned_ns, planned_ns + wakeup_ns, end_ns)
    idle = np.ceil(np.maximum(ready_ns - following, 0.0) / period_ns)
    return np.asarray(np.maximum(following + idle * period_ns, ready_ns))


def next_mark(marks: CycleMarks, ready_ns: Float64s, end_ns: Float64s) -> Float64s:
    """The start of the first recorded cycle at which a gradient is ready.

    No recorded cycle starts during an execution. So one that starts before ``end_ns`` is that
    which followed the execution when it was recorded. After the last mark it is at once.

    Args:
        marks: The recorded cycles.
        ready_ns: When the gradient is ready.
        end_ns: End of the previous cycle, its executions included.
    """
    following = np.searchsorted(marks.starts_ns, ready_ns)
    starts = np.append(marks.starts_ns, -np.inf)[following]
    return np.asarray(np.maximum(np.maximum(starts, ready_ns), end_ns))


class _Loop:
    """The loop in the middle of a step; arrays are [draws], open fusions [dtypes, draws].

    Every method works on the draws in ``rows`` alone: in most draws nothing happens when a
    gradient becomes ready but that it joins a fusion.
    """

    def __init__(
        self,
        settings: LoopSettings,
        cost_ns: CostNs,
        cycle_start_ns: ArrayLike | CycleMarks,
        shape: tuple[int, int],
    ) -> None:
        num_draws = shape[1]

        def filled(value: ArrayLike) -> Float64s:
            return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (num_draws,)))

        self._settings, self._cost_ns = settings, cost_ns
        self._wakeup = filled(settings.wakeup_ns)
        self._negotiation = filled(settings.negotiation_ns)
        self._period = filled(idle_period(settings))
        self._marks = cycle_start_ns if isinstance(cycle_start_ns, CycleMarks) else None
        self._begin = filled(-np.inf if isinstance(cycle_start_ns, CycleMarks) else cycle_start_ns)
        self._agreed = self._begin + self._negotiation
        self._end = self._agreed.copy()
        self._agreed_before, self._end_before = self._end.copy(), self._end.copy()
        self._open = np.zeros(shape)
        self._opened_at = np.zeros(shape, dtype=np.int64)
        self._total = filled(0.0)
        self._streams = np.full((settings.num_streams, num_draws), -np.inf)
        self._next_stream = np.zeros(num_draws, dtype=np.int64)
        self._last = filled(-np.inf)
        self._num_executions = np.zeros(num_draws, dtype=np.int64)
        self._num_cycles = np.zeros(num_draws, dtype=np.int64)
        self._waited, self._executed = filled(0.0), filled(0.0)

    def take(self, ready: Float64s, size: Float64s, code: Int64s | np.int64, number: int) -> None:
        """The next gradient in the order of ready times; size and dtype of each draw, or of all."""
        rows = np.flatnonzero(ready > self._begin)
        if len(rows):
            self._execute(rows)
            self._start_cycle(rows, ready[rows])
        needed = self._total + size
        if needed.max() > self._settings.fusion_bytes:
            rows = np.flatnonzero(needed > self._settings.fusion_bytes)
            shape = self._total.shape
            self._make_room(
                rows, np.broadcast_to(size, shape)[rows], np.broadcast_to(code, shape)[rows]
            )
        self._total += size
        if len(self._open) == 1:
            self._open[0] += size
            return
        draws = np.arange(len(self._total))
        opened = self._open[code, draws]
        self._opened_at[code, draws] = np.where(opened > 0, self._opened_at[code, draws], number)
        self._open[code, draws] = opened + size

    def finished(self, last_ready: Float64s, size_bytes: Float64s) -> StepCommunication:
        """The step, once its last gradient is taken."""
        self._execute(np.arange(len(self._begin)))
        end = np.maximum(self._last, self._agreed)
        waited = self._begin - np.maximum(last_ready, self._end_before)
        negotiated = self._negotiation + np.maximum(self._agreed_before - last_ready, 0.0)
        return StepCommunication(
            end,
            self._num_executions,
            size_bytes,
            TimeParts(self._waited, self._num_cycles * self._negotiation, self._executed),
            TimeParts(waited, negotiated, end - last_ready - waited - negotiated),
            self._begin,
        )

    def _start_cycle(self, rows: DrawRows, ready: Float64s) -> None:
        """The first cycle that starts once the gradient is ready; those before it take nothing."""
        end = self._end[rows]
        begin = self._next_begin(rows, ready, end)
        self._waited[rows] += begin - np.maximum(ready, end)
        self._num_cycles[rows] += 1
        self._agreed_before[rows] = self._agreed[rows]
        self._end_before[rows] = end
        self._begin[rows] = begin
        self._agreed[rows] = self._end[rows] = begin + self._negotiation[rows]

    def _next_begin(self, rows: DrawRows, ready: Float64s, end: Float64s) -> Float64s:
        if self._marks is not None:
            return next_mark(self._marks, ready, end)
        planned = self._begin[rows] + self._settings.cycle_ns
        return next_cycle(planned, end, ready, self._wakeup[rows], self._period[rows])

    def _make_room(self, rows: DrawRows, size: Float64s, code: Int64s) -> None:
        """Execute open fusions until the gradient can be fused or skipped."""
        if len(self._open) == 1:
            self._execute_dtype(0, rows)
            return
        limit = self._settings.fusion_bytes
        while len(rows):
            opened_at = np.where(self._open[:, rows] > 0, self._opened_at[:, rows], _NEVER)
            first = opened_at.argmin(axis=0)
            joins = (first == code) & (self._open[first, rows] + size <= limit)
            total = self._total[rows]
            stays = ~joins & (total + size > limit) & (total > 0)
            rows, size, code, first = rows[stays], size[stays], code[stays], first[stays]
            for dtype in range(len(self._open)):
                self._execute_dtype(dtype, rows[first == dtype])

    def _execute(self, rows: DrawRows) -> None:
        """All open fusions, in the order in which they were opened."""
        if len(self._open) == 1:
            self._execute_dtype(0, rows)
            return
        opened_at = np.where(self._open[:, rows] > 0, self._opened_at[:, rows], _NEVER)
        for place in np.argsort(opened_at, axis=0, kind="stable"):
            for dtype in range(len(self._open)):
                self._execute_dtype(dtype, rows[place == dtype])

    def _execute_dtype(self, dtype: int, rows: DrawRows) -> None:
        opened = self._open[dtype]
        rows = rows[opened[rows] > 0]
        if not len(rows):
            return
        size = np.zeros_like(opened)
        size[rows] = opened[rows]
        cost = self._cost_ns(size)[rows]
        if len(self._streams):
            stream = self._next_stream[rows]
            end = np.maximum(self._streams[stream, rows], self._agreed[rows]) + cost
            self._streams[stream, rows] = end
            self._last[rows] = np.maximum(self._last[rows], end)
            self._next_stream[rows] = (stream + 1) % len(self._streams)
        else:
            self._end[rows] += cost
            self._last[rows] = self._end[rows]
        self._executed[rows] += cost
        self._num_executions[rows] += 1
        self._total[rows] -= opened[rows]
        opened[rows] = 0.0
