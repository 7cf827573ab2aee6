"""How long passes take: by passes that have ended, else by what a start takes at least."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from hvdprof.rundir.manifest import PassRecord, Status

ASSUMED_UNIT_S = 2.0
"""Seconds for the start of a launch, and for each model in it beside its measured seconds."""

_Kind = tuple[int, str, str]


class PassTimes:
    """Estimates seconds of passes.

    A pass takes its measured seconds and one unit for its start and for each of its segments. The
    unit is that of the ended passes of the same size, engine and mode, else of any.

    Args:
        ended: Passes, of which those that ended well count.
    """

    def __init__(self, ended: Iterable[PassRecord]) -> None:
        self._units: dict[_Kind, list[float]] = {}
        for record in ended:
            if record.status == Status.DONE and record.duration_s and record.segments:
                unit = (record.duration_s - _measured_s(record)) / _num_units(record)
                self._units.setdefault(_kind(record), []).append(max(unit, 0.0))

    @property
    def num_passes(self) -> int:
        """The number of passes that the estimates rest on."""
        return sum(map(len, self._units.values()))

    def seconds(self, record: PassRecord) -> float | None:
        """Seconds of a pass; None where steps of unknown length bound it."""
        units = self._units.get(_kind(record)) or [
            unit for units in self._units.values() for unit in units
        ]
        if not units and any(segment.segment.max_seconds is None for segment in record.segments):
            return None
        unit = fmean(units) if units else ASSUMED_UNIT_S
        return unit * _num_units(record) + _measured_s(record)

    def total(self, records: Sequence[PassRecord]) -> float | None:
        """Seconds of several passes, one after the other."""
        known = [self.seconds(record) for record in records]
        return None if None in known else sum(filter(None, known))

    def start_seconds(self, record: PassRecord) -> float:
        """Seconds of a segment of a pass that are not measured steps."""
        units = self._units.get(_kind(record), [ASSUMED_UNIT_S])
        return fmean(units) * _num_units(record) / max(len(record.segments), 1)


def _kind(record: PassRecord) -> _Kind:
    return record.size, record.engine, record.mode


def _num_units(record: PassRecord) -> int:
    return 1 + len(record.segments)


def _measured_s(record: PassRecord) -> float:
    return sum(segment.segment.max_seconds or 0.0 for segment in record.segments)
