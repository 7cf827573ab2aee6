"""The events of a delay that comes now and then, and the exact calls that fill them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.lines.line_times import launch_names
from hvdprof.analyze.ranks.named_cause import LASTING, NamedCause, run_starts
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.stragglers.waiting import WaitingTables
from hvdprof.model.arrays import Bools, FrameRow
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import PAUSE, STRAGGLER
from hvdprof.model.tables.line_tables import EXACT
from hvdprof.rundir.recording.line_format import MAIN_PROCESS

LEAST_OF_EVENT = 0.5
"""A call explains an event if it takes this part of its delay."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a launch: the ranks with the steps in which it can have been recorded."""

    launch: str
    steps: frozenset[tuple[int, int]]

    def holds(self, rows: pd.DataFrame) -> Bools:
        """Mask of the rows, with ``launch``, ``rank`` and ``step``, that are of the event."""
        places = zip(rows["rank"], rows["step"], strict=True)
        is_in = np.fromiter((place in self.steps for place in places), bool, count=len(rows))
        return np.asarray(is_in & (rows["launch"] == self.launch).to_numpy())


def events_of(row: FrameRow, waits: WaitingTables, launches: frozenset[str]) -> list[Event]:
    """The events of a straggler now and then or of a pause, in these launches.

    Args:
        row: The row of WATERFALL.
        waits: The named causes of each launch, and its steps.
        launches: The names of the launches of the cell.
    """
    if row["term"] not in (STRAGGLER, PAUSE) or row["pattern"] in LASTING:
        return []
    found: list[Event] = []
    for key, causes in waits.named.items():
        name = "/".join(key)
        ranks = ranks_of(row)
        own = [
            one for one in causes if one.kind == row["term"] and (not ranks or one.ranks == ranks)
        ]
        if name in launches:
            # Of several with these ranks, those of the same phase.
            alike = [one for one in own if one.phase == row["phase"]] or own
            found += [event for one in alike for event in _events(name, one, waits.times[key])]
    return found


def _events(launch: str, cause: NamedCause, times: RankTimes) -> Iterator[Event]:
    """Runs of affected steps; what precedes the step since the last release belongs to it."""
    any_rank: Bools = np.asarray(cause.affected.any(axis=1))
    starts = np.flatnonzero(run_starts(any_rank))
    for begin, end in zip(starts, [*starts[1:], len(any_rank)], strict=True):
        rows = np.flatnonzero(any_rank[begin:end]) + begin
        yield Event(
            launch,
            frozenset(
                (int(rank), step)
                for row in rows
                for rank in times.ranks[cause.affected[row]]
                for step in range(
                    int(times.steps[row]) - 1, int(times.steps[row]) + times.steps_per_row
                )
            ),
        )


def exact_calls(
    row: FrameRow, events: Sequence[Event], calls: pd.DataFrame
) -> Iterator[dict[str, object]]:
    """Rows of LINE_CAUSES for calls that fill at least half of most events, longest first.

    Args:
        row: The row of WATERFALL.
        events: Its events.
        calls: NAMED_CALLS.
    """
    if not events or calls.empty:
        return
    known = calls[(calls["duration_ns"] > 0).to_numpy()]
    known = known.assign(launch=launch_names(known)).astype({"name": str, "file": str})
    found: list[tuple[float, dict[str, object]]] = []
    for (name, file, line), own in known.groupby(["name", "file", "line"], sort=False):
        lasting = [own.loc[event.holds(own), "duration_ns"] for event in events]
        least_ns = LEAST_OF_EVENT * float(row["delay_ns"])
        filled = [float(times.max()) for times in lasting if len(times) and times.max() >= least_ns]
        if len(filled) <= len(events) / 2:
            continue
        each_ns = float(np.mean(filled))
        row_of_call: dict[str, object] = {
            "process": MAIN_PROCESS,
            "against": EXACT,
            "file": file,
            "line": line,
            "function": "",
            "leaf": name,
            "samples": len(filled),
            "excess_ns": each_ns,
            "excess_low_ns": NAN,
            "excess_high_ns": NAN,
            "share": each_ns / float(row["delay_ns"]),
            "num_events": len(filled),
            "of_events": len(events),
        }
        found.append((each_ns, row_of_call))
    yield from (one for _, one in sorted(found, key=lambda pair: -pair[0]))
