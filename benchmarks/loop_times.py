"""How long negotiations and sleeps of Horovod's loop take, from the marks of its cycles."""

from dataclasses import dataclass

import numpy as np

from hvdprof.model.arrays import Float64s


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Samples of one launch on rank 0, ns.

    ``negotiation_ns`` is the time from the start of a cycle to its first execution: rank 0 waits
    there for ranks that start the same cycle later. ``wakeup_ns`` is how much later than planned a
    cycle without executions is followed by the next one.
    """

    negotiation_ns: Float64s
    wakeup_ns: Float64s


def loop_times(marks_ns: Float64s, execution_starts_ns: Float64s, cycle_ns: float) -> LoopTimes:
    """The times of the loop in one launch; without samples where no cycle is marked.

    Args:
        marks_ns: Starts of its cycles, ascending.
        execution_starts_ns: Starts of its executions, ascending, on the same clock.
        cycle_ns: Its cycle time.
    """
    cycle = np.searchsorted(marks_ns, execution_starts_ns, side="right") - 1
    opens = (np.diff(cycle, prepend=-2) != 0) & (cycle >= 0)
    first = cycle[opens]
    negotiation = execution_starts_ns[opens] - marks_ns[first]
    idle = np.ones(len(marks_ns), dtype=np.bool_)
    idle[first] = False
    gaps = np.diff(marks_ns)[idle[:-1]]
    return LoopTimes(negotiation, np.maximum(gaps - cycle_ns, 0.0))
