"""Plans one repeat after the other, until the result is known well enough or the time is up.

A repeat is one launch of each cell, in the order of the first repeat and the reverse of it by
turns. From ``FIRST_LOOK`` repeats on only the cells are launched again whose result is too wide,
each with its baseline. Tested in ``tests/launch/run/test_repeats.py``.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.plan.time_budget import PassTimes
from hvdprof.rundir.manifest import Manifest, Mode, PassRecord, SegmentRecord, Status
from hvdprof.rundir.plan import Segment
from hvdprof.rundir.stopping import (
    FIRST_LOOK,
    KnownCell,
    Look,
    Stop,
    StopReason,
    look_repeats,
    stopping_confidence,
    width,
)

LookAtRun = Callable[[Path, float], list[KnownCell]]
"""What is known of a run directory; the run stops by the interval of that confidence."""

MOST_TIMES_LONGER = 4.0
OVERRUN = 1.1
"""A repeat that takes this much longer than the budget is not ended."""

_Launchable = tuple[int, str, str]
"""Number of ranks, engine and model."""

_HAS_RESULT = (Status.DONE, Status.PARTIAL)


class Repeats:
    """The repeats of a run, planned by what its manifest and its recordings hold.

    Args:
        settings: Those of the run.
        manifest: Its looks and its stop are added here.
        folder: The run directory.
        look: Called after every repeat.
    """

    def __init__(
        self, settings: Settings, manifest: Manifest, folder: Path, look: LookAtRun
    ) -> None:
        self._settings = settings
        self._manifest = manifest
        self._folder = folder
        self._look = look
        self._added: set[str] = set()

    def next(self) -> list[PassRecord]:
        """The passes of the next repeat; none where the run ends, and the manifest says why."""
        manifest, most = self._manifest, self._settings.repeats
        done = max((record.repeat for record in manifest.passes), default=0)
        look = Look(
            repeat=done,
            elapsed_s=round(manifest.elapsed_s, 1),
            cells=self._look(self._folder, stopping_confidence(done, most)),
        )
        manifest.looks = [*(look for look in manifest.looks if look.repeat != done), look]
        wide = self._too_wide(look)
        if done >= FIRST_LOOK and not look.cells:
            return self._stop(StopReason.NOTHING, look)
        if done in look_repeats(most) and self._settings.precision is not None and not wide:
            return self._stop(StopReason.PRECISION, look)
        if done >= most:
            return self._stop(StopReason.REPEATS, look)
        left_s = self._left_s()
        for chosen in self._choices(done, look, wide):
            passes = self._planned(done + 1, chosen)
            if passes and self._fits(passes, left_s):
                self._added.update(record.id for record in passes)
                return self._longer(passes, look, left_s)
        return self._stop(StopReason.BUDGET if left_s < math.inf else StopReason.NOTHING, look)

    def is_over_time(self, record: PassRecord) -> bool:
        """Whether a pass that was planned here is not started any more: the time is up."""
        return record.id in self._added and self._left_s() < (1 - OVERRUN) * self._budget_s

    def _too_wide(self, look: Look) -> list[KnownCell]:
        """The cells that are not known to the precision, the widest first."""
        precision = self._settings.precision
        cells = [cell for cell in look.cells if precision is None or not width(cell) <= precision]
        return sorted(cells, key=width, reverse=True)

    @property
    def _budget_s(self) -> float:
        return math.inf if self._settings.budget_s is None else self._settings.budget_s

    def _left_s(self) -> float:
        return self._budget_s - self._manifest.elapsed_s

    def _choices(
        self, done: int, look: Look, wide: Sequence[KnownCell]
    ) -> Iterator[Collection[_Launchable]]:
        """What the next repeat can hold, from all to the widest cell alone."""
        if done < FIRST_LOOK:
            yield set(self._cells())
            wide = sorted(look.cells, key=width, reverse=True)
        for number in range(len(wide), 0, -1):
            yield {place for cell in wide[:number] for place in _places(cell)}

    def _cells(self) -> dict[_Launchable, list[tuple[PassRecord, Segment]]]:
        """The segments of the first repeat, each with its pass; those without result are left out.

        In the second repeat all have another chance.
        """
        known: dict[_Launchable, list[tuple[PassRecord, Segment]]] = {}
        passes = [record for record in self._manifest.passes if record.mode == Mode.THROUGHPUT]
        done = max((record.repeat for record in passes), default=0)
        results = {
            (record.size, segment.segment.id)
            for record in passes
            for segment in record.segments
            if segment.status in _HAS_RESULT
        }
        for record in (record for record in passes if record.repeat == 1):
            for segment in record.segments:
                if done == 1 or (record.size, segment.segment.id) in results:
                    place = (record.size, segment.segment.engine, segment.segment.model)
                    known.setdefault(place, []).append((record, segment.segment))
        return known

    def _planned(self, repeat: int, chosen: Collection[_Launchable]) -> list[PassRecord]:
        by_launch: dict[tuple[int, str], list[tuple[PassRecord, Segment]]] = {}
        for (size, engine, _), cells in self._cells().items():
            wanted = [cell for cell in cells if (size, engine, cell[1].model) in chosen]
            # Toggles are no part of the result that is narrowed.
            if repeat > FIRST_LOOK:
                plain = ("none", "average")
                wanted = [one for one in wanted if (one[1].compression, one[1].reduction) == plain]
            if wanted:
                by_launch.setdefault((size, engine), []).extend(wanted)
        groups = list(by_launch.values())
        last = max(int(record.id.split("-", 1)[0]) for record in self._manifest.passes)
        passes: list[PassRecord] = []
        for cells in groups if repeat % 2 else reversed(groups):
            record = cells[0][0]
            segments = [segment for _, segment in (cells if repeat % 2 else reversed(cells))]
            passes.append(_again(record, last + len(passes) + 1, repeat, segments))
        return passes

    def _fits(self, passes: Sequence[PassRecord], left_s: float) -> bool:
        if left_s == math.inf:
            return True
        needed_s = PassTimes(self._manifest.passes).total(passes)
        return left_s > 0 if needed_s is None else needed_s <= left_s

    def _longer(self, passes: list[PassRecord], look: Look, left_s: float) -> list[PassRecord]:
        """The passes with more measured seconds where steps, not launches, make the error.

        With a start of c seconds, and steps whose share of a launch's variance is within, the rest
        between, launches of ``sqrt(c * t * within / between)`` measured seconds narrow the interval
        fastest, t being the seconds so far (Kalibera and Jones, ISMM 2013, section 5).
        """
        noise = {cell.model: cell.step_noise for cell in look.cells}
        times = PassTimes(self._manifest.passes)
        starts: dict[str, list[float]] = {}
        for record in passes:
            for segment in record.segments:
                starts.setdefault(segment.segment.model, []).append(times.start_seconds(record))

        def stretched(segment: Segment) -> Segment:
            so_far, share = segment.max_seconds, noise.get(segment.model)
            if so_far is None or share is None:
                return segment
            start_s = max(starts[segment.model])
            best_s = math.sqrt(start_s * so_far * share)
            most_s = MOST_TIMES_LONGER * so_far
            return replace(segment, max_seconds=round(min(max(best_s, so_far), most_s), 1))

        longer = [
            replace(
                record,
                segments=[
                    SegmentRecord(segment=stretched(segment.segment)) for segment in record.segments
                ],
            )
            for record in passes
        ]
        return longer if self._fits(longer, left_s) else passes

    def _stop(self, reason: StopReason, look: Look) -> list[PassRecord]:
        widest, settings = look.widest, self._settings
        self._manifest.stop = Stop(
            reason=reason,
            num_repeats=look.repeat,
            most_repeats=settings.repeats,
            half_width=None if widest is None else widest.half_width,
            precision=settings.precision,
            budget_s=settings.budget_s,
            elapsed_s=look.elapsed_s,
            missing_s=None if reason == StopReason.PRECISION else self._missing_s(look),
        )
        return []

    def _missing_s(self, look: Look) -> float | None:
        """Seconds that the precision needs beyond those used, as 1 / sqrt(repeats) narrows it."""
        widest, precision = look.widest, self._settings.precision
        if widest is None or precision is None or width(widest) == math.inf:
            return None
        factor = (width(widest) / precision) ** 2
        more = max(1, math.ceil(look.repeat * (factor - 1)))
        chosen = {place for cell in self._too_wide(look) for place in _places(cell)}
        each_s = PassTimes(self._manifest.passes).total(self._planned(look.repeat + 1, chosen))
        return None if each_s is None else round(more * each_s, 1)


def _places(cell: KnownCell) -> tuple[_Launchable, _Launchable]:
    return (
        (cell.size, cell.engine, cell.model),
        (cell.baseline_size, cell.baseline_engine, cell.model),
    )


def _again(record: PassRecord, number: int, repeat: int, segments: Sequence[Segment]) -> PassRecord:
    """A pass of the first repeat once more, as planned."""
    kind = record.id.split("-", 1)[1].rsplit("-r1", 1)[0]
    return PassRecord(
        id=f"{number:02d}-{kind}-r{repeat}",
        mode=record.mode,
        size=record.size,
        repeat=repeat,
        controller=record.controller,
        oversubscribed=record.oversubscribed,
        pinned=record.pinned,
        segments=[SegmentRecord(segment=segment) for segment in segments],
    )
