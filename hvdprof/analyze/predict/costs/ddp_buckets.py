"""One training step of DDP's reducer over many draws, and what any simulated step gives back.

As in PyTorch's ``reducer.cpp``: gradients fill buckets in the order in which they became ready in
the first backward, one dtype per bucket. A bucket is closed by the gradient that reaches its limit,
so it may exceed it. A bucket is submitted when its last gradient is ready and all buckets before it
are submitted. There is no negotiation and no cycle. With ``find_unused_parameters=True`` DDP keeps
the reverse order of registration: give the gradients in that order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.model.arrays import Float64s, Int64s
from hvdprof.model.run import Run

CostNs = Callable[[Float64s], Float64s]
"""The time of collectives of so many bytes, [draws] to [draws], ns.

It is called with all draws at once, with 0 bytes where a draw executes nothing; what it returns
there does not count.
"""

FIRST_BUCKET_BYTES = 2**20
DEFAULT_CAP_BYTES = 25 * 2**20
_DEFAULT = "DDP's default of 1 MiB first, then 25 MiB"


@dataclass(frozen=True, slots=True)
class TimeParts:
    """Time by part, each [draws], ns.

    ``cycle_ns`` is the wait of ready gradients for the next cycle of Horovod's loop,
    ``negotiation_ns`` the time in which the ranks agree on what is ready, and ``execution_ns``
    the collectives.
    """

    cycle_ns: Float64s
    negotiation_ns: Float64s
    execution_ns: Float64s


@dataclass(frozen=True, slots=True)
class StepCommunication:
    """The communication of one step, each array [draws], times in ns.

    ``end_ns`` is the end of the last collective, on the axis of the ready times. ``parts`` is
    time by part over the whole step. ``exposed`` is that after the last gradient is ready; its
    parts sum to ``end_ns`` minus that moment. ``last_cycle_ns`` is the start of the last cycle of
    Horovod's loop that took a gradient: the phase of the loop for the next step.
    """

    end_ns: Float64s
    num_executions: Int64s
    size_bytes: Float64s
    parts: TimeParts
    exposed: TimeParts
    last_cycle_ns: Float64s


def bucket_limits(bucket_cap_mb: float | None) -> tuple[int, ...]:
    """The limits of the first bucket and of all others, as DDP derives them from its argument.

    Args:
        bucket_cap_mb: The argument in MiB; None where the script does not give it. A given cap
            holds for the first bucket, too.
    """
    if bucket_cap_mb is None:
        return (FIRST_BUCKET_BYTES, DEFAULT_CAP_BYTES)
    return (int(bucket_cap_mb * 2**20),)


def ddp_buckets(
    size_bytes: Sequence[int] | Int64s,
    limits: Sequence[int] = (FIRST_BUCKET_BYTES, DEFAULT_CAP_BYTES),
    dtype_codes: Int64s | None = None,
) -> tuple[Int64s, ...]:
    """The places of the gradients of each bucket, in the order in which DDP reduces them.

    Buckets that no gradient closes come last, here in the order in which they were opened. With
    several dtypes DDP orders these by a hash table.

    Args:
        size_bytes: [gradients] In the order of their ready times, before compression: DDP fills
            buckets before a communication hook compresses them.
        limits: Bytes that close the first bucket of a dtype, the second ...; the last holds for all
            others.
        dtype_codes: [gradients] Equal numbers for equal dtypes; all equal where not given.
    """
    codes = np.zeros(len(size_bytes), dtype=np.int64) if dtype_codes is None else dtype_codes
    closed: list[list[int]] = []
    opened: dict[int, list[int]] = {}
    filled: dict[int, int] = {}
    num_closed: dict[int, int] = {}
    for place, (size, code) in enumerate(zip(size_bytes, codes.tolist(), strict=True)):
        opened.setdefault(code, []).append(place)
        filled[code] = filled.get(code, 0) + int(size)
        number = num_closed.get(code, 0)
        if filled[code] >= limits[min(number, len(limits) - 1)]:
            closed.append(opened.pop(code))
            filled[code] = 0
            num_closed[code] = number + 1
    return tuple(np.array(places, dtype=np.int64) for places in (*closed, *opened.values()))


def simulate_ddp(
    ready_ns: Float64s,
    sent_bytes: Sequence[int] | Int64s,
    buckets: Sequence[Int64s],
    *,
    cost_ns: CostNs,
) -> StepCommunication:
    """The communication of one step; one bucket is reduced at a time.

    Args:
        ready_ns: [draws, gradients] When the last rank has each gradient ready; on any axis.
        sent_bytes: [gradients] What is sent of each, after compression.
        buckets: The places of the gradients of each bucket, in order (``ddp_buckets``).
        cost_ns: Time of a collective.
    """
    num_draws = len(ready_ns)
    sizes = np.asarray(sent_bytes, dtype=np.float64)
    end = np.full(num_draws, -np.inf)
    submitted = end
    executed = np.zeros(num_draws)
    for places in buckets:
        cost = cost_ns(np.full(num_draws, sizes[places].sum()))
        submitted = np.maximum(submitted, ready_ns[:, places].max(axis=1))
        end = np.maximum(submitted, end) + cost
        executed = executed + cost
    none = np.zeros(num_draws)
    return StepCommunication(
        end_ns=end,
        num_executions=np.full(num_draws, len(buckets), dtype=np.int64),
        size_bytes=np.full(num_draws, sizes.sum()),
        parts=TimeParts(none, none, executed),
        exposed=TimeParts(none, none, end - ready_ns.max(axis=1)),
        last_cycle_ns=np.full(num_draws, np.nan),
    )


def recorded_buckets(run: Run) -> tuple[tuple[int, ...], str]:
    """The limits in bytes, as ``ddp_buckets`` takes them, and a sentence on where they come from.

    Reference models have ``--fusion-threshold-mb``, scripts what they give to
    ``DistributedDataParallel``.
    """
    facts = run.ddp
    if run.manifest.settings and run.manifest.settings.get("script") is None:
        cap = run.manifest.options.get("fusion_threshold_mb")
    elif facts is None:
        return bucket_limits(None), f"The sizes of DDP's buckets are not recorded: {_DEFAULT}."
    elif facts.has_cap_list:
        said = f"The script gives a size for each bucket of DDP; assumed is {_DEFAULT}."
        return bucket_limits(None), said
    else:
        cap = facts.bucket_cap_mb
    if cap is None:
        return bucket_limits(None), f"DDP's buckets have their recorded sizes: {_DEFAULT}."
    return bucket_limits(float(cap)), f"DDP's buckets have their recorded size of {cap:g} MiB."
