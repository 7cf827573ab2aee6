"""Trace overhead: the trace pass against the throughput pass of the same cell."""

from collections.abc import Mapping

from hvdprof.analyze.stats.uncertainty import NAN, Interval, difference
from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.rundir.manifest import Mode


def trace_overhead(cell: Cell, times: Mapping[Cell, CellTime]) -> Interval:
    """Step time in the trace passes divided by that in the throughput passes, minus 1.

    NaN where one of the two is not measured.
    """
    traced, free = times.get(cell.in_mode(Mode.TRACE)), times.get(cell.in_mode(Mode.THROUGHPUT))
    if traced is None or free is None:
        return Interval(NAN, NAN, NAN)
    ratio = difference(traced.log_step_time, free.log_step_time).interval()
    return Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)
