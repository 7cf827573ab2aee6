"""Traces put together by recording: those of one job whose ranks were traced at one time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.ingest.kineto.trace_file import TraceFile
from hvdprof.ingest.sources.listing import rank_in_name

UNKNOWN_ERROR_NS = 1_000_000_000
"""Stands for the unknown error of wall clocks of two hosts; collectives bound it afterwards."""


@dataclass(frozen=True, slots=True)
class RankedTrace:
    """A whole trace; ``rank`` is None where neither the trace nor its name says it.

    ``span`` is its first and last time, ns since 1970; None without such a clock or events.
    """

    path: Path
    file: TraceFile
    rank: int | None
    span: tuple[int, int] | None


@dataclass(slots=True)
class Recording:
    """The traces of one recording by rank; a single trace without a rank counts as rank 0."""

    traces: dict[int, RankedTrace] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Ranks of the job, as far as the traces show."""
        stated = [trace.file.size or 0 for trace in self.traces.values()]
        return max([*stated, *(rank + 1 for rank in self.traces)])

    @property
    def is_whole(self) -> bool:
        """Whether every rank is known to have a trace."""
        are_known = all(trace.rank is not None for trace in self.traces.values())
        return are_known and len(self.traces) == self.size

    @property
    def paths(self) -> list[Path]:
        """Its files by rank."""
        return [one.path for _, one in sorted(self.traces.items())]


def ranked(files: Sequence[tuple[Path, TraceFile]]) -> list[RankedTrace]:
    """Traces with their ranks: that in the trace, else that in its name."""
    return [
        RankedTrace(
            path, file, rank_in_name(path) if file.rank is None else file.rank, _span_of(file)
        )
        for path, file in files
    ]


def _span_of(file: TraceFile) -> tuple[int, int] | None:
    zero = file.zero_ns
    starts = [annotation.start_ns for annotation in file.annotations[:1]]
    starts += [call.arrival_ns for call in file.calls[:1]]
    if zero is None or not starts:
        return None
    ends = [call.arrival_ns for call in file.calls[-1:]]
    ends.append(max((annotation.end_ns for annotation in file.annotations), default=starts[0]))
    return min(starts) + zero, max(ends) + zero


def recordings_of(traces: Sequence[RankedTrace]) -> list[Recording]:
    """The recordings that some traces are of, in the order of their first files.

    Two traces of one recording are of different ranks of a job of one size, backend and set of
    process groups, and have a common time where their clocks are known. Of several recordings that
    a trace fits, it is of the one with the longest common time.
    """
    found = [Recording({0: trace}) for trace in traces if trace.rank is None]
    rest = [trace for trace in traces if trace.rank is not None]
    while rest:
        ranks = Counter(trace.rank for trace in rest)
        most = max(ranks.values())
        first = min(rank for rank, number in ranks.items() if number == most and rank is not None)
        # The traces of one rank are of as many recordings.
        seeds = [trace for trace in rest if trace.rank == first]
        grown = _grown(seeds, [trace for trace in rest if trace.rank != first])
        found += grown
        taken = {trace.path for recording in grown for trace in recording.traces.values()}
        rest = [trace for trace in rest if trace.path not in taken]
    places = {trace.path: place for place, trace in enumerate(traces)}
    return sorted(found, key=lambda recording: min(places[path] for path in recording.paths))


def _grown(seeds: Sequence[RankedTrace], others: Sequence[RankedTrace]) -> list[Recording]:
    recordings = [Recording({seed.rank or 0: seed}) for seed in seeds]
    scored = [
        (_common(seed, one), place, number)
        for place, seed in enumerate(seeds)
        for number, one in enumerate(others)
        if _fit(seed, one)
    ]
    taken: set[int] = set()
    for _, place, number in sorted(scored, key=lambda pair: (-pair[0], pair[1], pair[2])):
        one, traces = others[number], recordings[place].traces
        rank = one.rank or 0
        if number in taken or rank in traces:
            continue
        if all(_fit(member, one) for member in traces.values()):
            traces[rank] = one
            taken.add(number)
    return recordings


def _fit(one: RankedTrace, other: RankedTrace) -> bool:
    """Whether two traces can be of one recording."""
    first, second = one.file, other.file
    if None not in (first.size, second.size) and first.size != second.size:
        return False
    if first.backend and second.backend and first.backend != second.backend:
        return False
    for name, ranks in first.groups.items():
        members = second.groups.get(name, ranks)
        # A name stands for several groups where no rank is in two of them.
        if members != ranks and not set(members).isdisjoint(ranks):
            return False
    return _common(one, other) > -UNKNOWN_ERROR_NS


def _common(one: RankedTrace, other: RankedTrace) -> int:
    """The common time of two traces in ns, below 0 where there is time between them.

    Without known clocks 1 in one folder, else 0.
    """
    first, second = one.span, other.span
    if first is None or second is None:
        return int(one.path.parent == other.path.parent)
    return min(first[1], second[1]) - max(first[0], second[0])
