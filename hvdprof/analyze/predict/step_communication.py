"""What one simulated step of communication gives back, the same for Horovod and DDP."""

from collections.abc import Callable
from dataclasses import dataclass

from hvdprof.model.arrays import Float64s, Int64s

CostNs = Callable[[Float64s], Float64s]
"""The time of collectives of so many bytes, [draws] to [draws], ns.

It is called with all draws at once, with 0 bytes where a draw executes nothing; what it returns
there does not count.
"""


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
