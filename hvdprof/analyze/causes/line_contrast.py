"""Lines of code that take longer than elsewhere beyond chance, in all samples and in events."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from hvdprof.analyze.causes.line_times import (
    LINE,
    WINDOW,
    SampledLines,
    Times,
    by_line,
    chance_of_excess,
    difference_ends,
    launch_names,
    times_of_lines,
)
from hvdprof.analyze.ranks.named_cause import LASTING, NamedCause, run_starts
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.ranks.waiting import WaitingTables
from hvdprof.analyze.stats.change_point import holm
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.arrays import Bools, Float64s, FrameRow
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import PAUSE, STRAGGLER
from hvdprof.model.tables.line_tables import EXACT, LEAST_SAMPLES
from hvdprof.rundir.recording.line_format import BLOCKED_PHASE, MAIN_PROCESS

CHANCE = 0.01
"""The chance that any line of a contrast is named although none takes longer, at most."""

DELAYS = 2.0
"""Mean delays of samples that an excess exceeds where the line is named."""

_EXCESS = ("excess_ns", "excess_low_ns", "excess_high_ns")

LEAST_OF_EVENT = 0.5
"""A call explains an event if it takes this part of its delay."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Some samples: rows of LINE_SAMPLES, of LINE_SAMPLING, and steps, added over the ranks.

    ``exposure`` is what a line of 1 ns per step yields: steps by samples per ns, of all phases.
    """

    lines: pd.DataFrame
    whole: pd.DataFrame
    steps: float
    exposure: float

    @property
    def delay_ns(self) -> float:
        """By how much a sample came later than intended, mean, ns."""
        number = float(self.whole["samples"].sum())
        return float(self.whole["late_ns"].sum()) / number if number else 0.0

    def times(self, counts: Float64s) -> Times:
        """Times per step of lines with so many samples, ns, with the ends of the intervals."""
        whole = float(self.whole["time_ns"].sum()) / max(self.steps, 1.0)
        return times_of_lines(counts, float(self.whole["samples"].sum()), whole)


@dataclass(frozen=True)
class CellSamples:
    """A cell with its samples: what it explains its causes from.

    ``launches`` are the names of its own, ``baseline`` those that it is held against.
    """

    sampled: SampledLines
    launches: frozenset[str]
    baseline: frozenset[str]

    @cached_property
    def ranks(self) -> frozenset[int]:
        """The ranks that were sampled."""
        whole = self.sampled.whole
        return frozenset(whole.loc[whole["launch"].isin(self.launches), "rank"].tolist())

    def samples(
        self,
        launches: frozenset[str],
        ranks: Sequence[int] | frozenset[int] = (),
        phases: Sequence[str] = (),
        *,
        process: str = MAIN_PROCESS,
        inside: Callable[[pd.DataFrame], Bools] | None = None,
    ) -> Samples:
        """The samples of launches: of some ranks and phases, or all; ``inside`` some windows."""

        def chosen(table: pd.DataFrame, of_process: str) -> pd.DataFrame:
            own = table["launch"].isin(launches) & (table["process"] == of_process)
            if ranks:
                own &= table["rank"].isin(list(ranks))
            rows = table[own.to_numpy()]
            return rows if inside is None else rows[inside(rows)]

        lines, whole = (
            chosen(table, process) for table in (self.sampled.lines, self.sampled.whole)
        )
        main = whole if process == MAIN_PROCESS else chosen(self.sampled.whole, MAIN_PROCESS)
        steps = float(main.drop_duplicates(WINDOW)["steps"].sum())
        sampled_ns = float(whole["sampled_ns"].sum())
        rate = float(whole["samples"].sum()) / sampled_ns if sampled_ns else 0.0
        lines, whole = (
            part[part["phase"].isin(phases) if phases else part["phase"] != BLOCKED_PHASE]
            for part in (lines, whole)
        )
        return Samples(lines, whole, steps, steps * rate)


def longer_lines(own: Samples, other: Samples) -> pd.DataFrame:
    """The lines that take longer per step in ``own``, largest excess first.

    Columns are those of a line, ``samples``, ``mean_ns`` (the time per step in ``own``), and
    ``excess_ns`` with ``_low`` and ``_high``. Lines with fewer than five samples in both together
    are not tested, which does not depend on where they are; those with fewer in ``own`` are not
    named. Neither is an excess below ``DELAYS`` mean delays of the samples: a sample waits until
    the training thread yields the interpreter's lock, up to 5 ms in a loop of Python code, and
    then shows the line behind a shorter one.

    Args:
        own: The samples in which lines may take longer.
        other: What they are held against.
    """
    lines = by_line(own.lines, [])
    against = by_line(other.lines, [])[[*LINE, "samples"]]
    lines = lines.merge(against, on=LINE, how="left", suffixes=("", "_other"))
    counts = lines["samples"].to_numpy(dtype=np.float64)
    others = lines["samples_other"].fillna(0).to_numpy(dtype=np.float64)
    first, second = own.times(counts), other.times(others)
    excess = first[0] - second[0], *difference_ends(first, second)
    lines = lines.assign(mean_ns=first[0], other=others, **dict(zip(_EXCESS, excess, strict=True)))
    lines = lines[counts + others >= LEAST_SAMPLES]
    ends = own.exposure, other.exposure
    chances = holm(
        [
            chance_of_excess(int(count), int(beside), *ends)
            for count, beside in zip(lines["samples"], lines["other"], strict=True)
        ]
    )
    is_named = (np.array(chances) <= CHANCE) & (lines["excess_low_ns"] > 0).to_numpy()
    is_named &= (lines["excess_ns"] >= DELAYS * own.delay_ns).to_numpy()
    named: pd.DataFrame = lines[is_named & (lines["samples"] >= LEAST_SAMPLES).to_numpy()]
    return named.sort_values("excess_ns", ascending=False, kind="stable")


def lines_alone(own: Samples) -> pd.DataFrame:
    """The lines with their times per step, ns, held against nothing; five samples at least."""
    lines = by_line(own.lines, [])
    times = own.times(lines["samples"].to_numpy(dtype=np.float64))
    lines = lines.assign(**dict(zip(_EXCESS, times, strict=True)))
    lines = lines[(lines["samples"] >= LEAST_SAMPLES).to_numpy()]
    return lines.sort_values("samples", ascending=False, kind="stable")


def on_every_rank(lines: pd.DataFrame, own: Samples, members: Iterable[int]) -> pd.DataFrame:
    """Those of some lines that each rank has, with the numbers of the rank that has least of them.

    ``excess_ns`` with its ends is the time per step on that rank, ns, and ``share`` its share of
    the samples there. Each rank has five samples of the line at least. Where times are not known
    they are NaN, and the rank is that with the least share.

    Args:
        lines: Lines of ``own``.
        own: The samples of all ranks, each with as many steps; its times may be NaN.
        members: The ranks, also those without a sample in ``own``.
    """
    if lines.empty:
        return lines.assign(share=NAN)
    ranks = own.whole.groupby("rank")[["samples", "time_ns"]].sum(min_count=1)
    ranks = ranks.reindex(sorted(members), fill_value=0)
    counts = own.lines.pivot_table("samples", LINE, "rank", aggfunc="sum", fill_value=0)
    counts = counts.reindex(columns=ranks.index, fill_value=0)
    counts = counts.reindex(pd.MultiIndex.from_frame(lines[LINE]), fill_value=0)
    num = np.maximum(ranks["samples"].to_numpy(dtype=np.float64), 1.0)
    shares = counts.to_numpy(dtype=np.float64) / num
    per_step = ranks["time_ns"].to_numpy() * len(ranks) / max(own.steps, 1.0)
    least = (shares * (1.0 if np.isnan(per_step).any() else per_step)).argmin(axis=1)
    share = np.take_along_axis(shares, least[:, None], axis=1)[:, 0]
    times = times_of_lines(share * num[least], num[least], per_step[least])
    found = lines.assign(share=share, **dict(zip(_EXCESS, times, strict=True)))
    on_all = counts.to_numpy().min(axis=1) >= LEAST_SAMPLES
    return pd.DataFrame(found[on_all])


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
