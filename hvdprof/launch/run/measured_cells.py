"""Which cells of a run lack the launches that their number needs.

Tested in ``tests/launch/run/test_measured_cells.py``.
"""

from collections.abc import Iterable

from hvdprof.rundir.manifest import Mode, PassRecord, Status

LEAST_LAUNCHES = 2
"""Launches from which a result has an interval, where several are planned."""

_FAILED = (Status.FAILED, Status.PARTIAL)

_Cell = tuple[int, str]
"""Number of ranks and segment."""


def num_failed(passes: Iterable[PassRecord]) -> int:
    """Measurements that failed, whether their cell has a result by others or not."""
    return sum(segment.status in _FAILED for record in passes for segment in record.segments)


def cells_without_result(passes: Iterable[PassRecord]) -> int:
    """Cells of which a measurement failed and too few others are done.

    Throughput counts where it is measured, since the other launches only explain it. A cell needs
    as many launches as are planned, at most ``LEAST_LAUNCHES``. An elastic job is one measurement:
    it has no others that could stand for what failed.
    """
    statuses: dict[_Cell, dict[str, list[str]]] = {}
    elastic_failures = 0
    for record in passes:
        for segment in record.segments:
            if record.session is not None:
                elastic_failures += segment.status in _FAILED
                continue
            by_mode = statuses.setdefault((record.size, segment.segment.id), {})
            by_mode.setdefault(record.mode, []).append(segment.status)
    lacking = 0
    for by_mode in statuses.values():
        launches = by_mode.get(Mode.THROUGHPUT) or [
            status for all_ in by_mode.values() for status in all_
        ]
        needed = min(LEAST_LAUNCHES, len(launches))
        is_short = launches.count(Status.DONE) < needed
        lacking += is_short and any(launch in _FAILED for launch in launches)
    return lacking + elastic_failures
