"""Which part of a run a Chrome trace shows, and what such a trace is made of."""

import heapq
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd

from hvdprof import units
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.model.run import Run
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.nsys_tables import NSYS_GPUS
from hvdprof.model.tables.rank_collective_tables import RANK_COLLECTIVES
from hvdprof.model.tables.window_tables import EVALUATIONS, WINDOWS
from hvdprof.report.json_values import JsonValue
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_files
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Mode


@dataclass(frozen=True, slots=True)
class TracedPass:
    """The recordings of one pass, cut to the chosen model; tables as in ``model.tables``.

    ``collectives`` are the executions where the analysis has been made.
    """

    pass_id: str
    mode: str
    size: int
    segments: pd.DataFrame
    steps: pd.DataFrame
    arrivals: pd.DataFrame
    events: pd.DataFrame
    collectives: pd.DataFrame
    evaluations: pd.DataFrame


def select_pass(
    run: Run,
    pass_id: str | None = None,
    model: str | None = None,
    collectives: pd.DataFrame | None = None,
) -> TracedPass:
    """The recordings that shall be shown.

    Args:
        run: The run.
        pass_id: Id of a pass; without it the trace pass of the most ranks that holds the model,
            or the largest pass of all where the run has no trace pass.
        model: Name of a model; without it every segment of the pass.
        collectives: COLLECTIVES of the run.

    Raises:
        UsageError: No pass or no model of that name was recorded, or the pass is a light recording.
        UnreadableInputError: The run holds no recorded step and no timeline.
    """
    # A timeline can be shown alone where no rank recorded steps beside it.
    shown = {*run.steps["pass_id"].unique(), *run.events["pass_id"].unique()}
    recorded = run.segments[run.segments["pass_id"].isin(shown)]
    if recorded.empty:
        raise UnreadableInputError(
            f"{run.folder} holds no recorded step and no timeline, so there is nothing to "
            "show on a time axis.",
            hint=export_hint(run),
        )
    if pass_id is not None and pass_id not in set(recorded["pass_id"]):
        raise UsageError(f"No pass {pass_id!r} was recorded.", hint=_list_of(recorded))
    wanted = recorded if pass_id is None else recorded[recorded["pass_id"] == pass_id]
    if model is not None:
        wanted = wanted[wanted["model"] == model]
        if wanted.empty:
            where = f" in pass {pass_id}" if pass_id else ""
            raise UsageError(f"No model {model!r} was recorded{where}.", hint=_list_of(recorded))
    ranked = wanted.assign(
        is_trace=wanted["mode"].astype(str) == Mode.TRACE, first=-wanted["repeat"]
    )
    ranked = ranked.sort_values(["is_trace", "size", "first"], ascending=False, kind="stable")
    chosen = str(ranked["pass_id"].iloc[0])
    if chosen in set(run.table(WINDOWS.name)["pass_id"]):
        raise UsageError(
            f"Pass {chosen} is a light recording: it holds means over windows, no single steps.",
            hint="Record the job without --light.",
        )
    known = COLLECTIVES.empty() if collectives is None else collectives
    return _cut(run, wanted, chosen, known)


def _cut(run: Run, segments: pd.DataFrame, pass_id: str, collectives: pd.DataFrame) -> TracedPass:
    chosen = segments[segments["pass_id"] == pass_id]
    ids = chosen["segment"].astype(str)

    def rows(table: pd.DataFrame) -> pd.DataFrame:
        return table[(table["pass_id"] == pass_id) & table["segment"].astype(str).isin(ids)]

    return TracedPass(
        pass_id=pass_id,
        mode=str(chosen["mode"].iloc[0]),
        size=int(chosen["size"].iloc[0]),
        segments=chosen,
        steps=rows(run.steps),
        arrivals=rows(run.arrivals),
        events=rows(run.events),
        collectives=rows(collectives),
        evaluations=rows(run.table(EVALUATIONS.name)),
    )


def _list_of(recorded: pd.DataFrame) -> str:
    lines = [
        f"  {pass_id}: {', '.join(dict.fromkeys(rows['model'].astype(str)))}"
        for pass_id, rows in recorded.groupby("pass_id", observed=True)
    ]
    return "\n".join(["Recorded passes and their models:", *lines])


def export_hint(run: Run) -> str:
    """The command that exports attached recordings of a run without steps, or the file to read."""
    attached = attached_files(run.manifest)
    if attached:
        place = _exportable(run, attached)
        if place is not None:
            command = shlex.join(["hvdprof", "export", str(place), "-o", "trace.json"])
            return f"Export the attached files: {command}"
        return _attached_alone(run, attached)
    passes = [RunPaths(run.folder).of_pass(record.id) for record in run.manifest.passes]
    outputs = [
        path for record in passes for path in (record.stderr, record.stdout) if _has_text(path)
    ]
    return f"The reason is in {outputs[0]}." if outputs else ""


def _exportable(run: Run, attached: Sequence[AttachedFile]) -> Path | None:
    """The recording, or the folder of recordings, that `hvdprof export` can draw."""
    copies = [run.folder / file.copy for file in attached if file.kind == AttachedKind.RECORDING]
    exports = set(run.table(NSYS_GPUS.name)["file"].astype(str))
    for path in copies:
        # Files are called by the last part of their folder there.
        if f"{path.parent.name}/{path.name}" in exports:
            return path
    if run.table(RANK_COLLECTIVES.name).empty:
        return None
    return copies[0] if len(copies) == 1 else copies[0].parent


def _attached_alone(run: Run, attached: Sequence[AttachedFile]) -> str:
    first = run.folder / attached[0].copy
    number = units.counted(len(attached), "file")
    which = f"Only {first} is" if len(attached) == 1 else f"{number}, such as {first}, are"
    command = shlex.join(["hvdprof", "convert", str(run.folder), "-o", "tables"])
    return (
        f"{which} attached, without a place in time. Attach a timeline, traces of torch.profiler, "
        f"or dumps of PyTorch's Flight Recorder too, or read the tables: {command}"
    )


def _has_text(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread of the viewer: ``process`` and ``thread`` number it, ``name`` labels it."""

    process: int
    thread: int
    name: str


class EventKind(StrEnum):
    """What an event is, by its letter in the format; an interval without a length is an instant."""

    INTERVAL = "X"
    COUNTER = "C"
    FLOW_START = "s"
    FLOW_END = "f"


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """An interval on a lane, or an instant where ``dur_ns`` is ``None``.

    ``flow`` is the number that the two ends of an arrow share. ``category`` is the name of the lane
    without the number of a further one, unless it is given.
    """

    lane: Lane
    name: str
    start_ns: int
    dur_ns: int | None
    args: Mapping[str, JsonValue] = field(default_factory=dict)
    colour: str = ""
    kind: EventKind = EventKind.INTERVAL
    flow: int = 0
    category: str = ""


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows one by one, columns as attributes, without a copy of the table."""
    return iter(table.itertuples())


def in_order_of_time(sources: Iterable[Iterable[TraceEvent]]) -> Iterator[TraceEvent]:
    """All events by start, the longer first, from sources that are each in that order."""
    return heapq.merge(*sources, key=lambda event: (event.start_ns, -(event.dur_ns or 0)))
