"""Per-rank phase logs of torchtitan (``structured_logs/*.jsonl``) as a recording of all ranks.

A line is the begin or the end of a span: ``step``, ``fetching_batch``, ``fwd_bwd``, ``optim`` ...,
with the wall clock of the host. No line says how long a rank waits. In synchronous training every
rank waits until the last one is through what no other rank takes part in (``_OWN``): so much less
is left of its ``fwd_bwd``. Waits for a rank that is slow in there remain unseen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.file_entry import FileEntry
from hvdprof.ingest.kineto.traced_pass import segment_row, traced_pass
from hvdprof.ingest.recorder.recorder_lines import file_of_lines
from hvdprof.ingest.recorder.session_rows import UNKNOWN_ERROR_NS, Alignment, exclude_evaluations
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.plain_text import printable
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_settings
from hvdprof.rundir.json_codec import JsonObject, read_lines
from hvdprof.rundir.manifest import Manifest, PassRecord
from hvdprof.rundir.plan import COLLECTIVES_ENGINE
from hvdprof.rundir.recording.recorder_format import (
    RECORDER_SCHEMA_VERSION,
    SAME_CLOCK,
    Interval,
    Phase,
)
from hvdprof.units import counted

_PHASES = {
    "fetching_batch": "data",
    "fwd_bwd": "backward",
    "optim": "optimizer",
    "optimizer": "optimizer",
    "eval": "evaluation",
    **{name: name for name in ("gc_collect", "checkpoint_save")},
}
"""Spans that count, and their phase; the others lie within them, or around the steps."""
_OWN = ("data", "gc_collect")
_SEGMENT = "main"
_SAME_HOST = Alignment(SAME_CLOCK, 0, 0, 0.0, 0)
_WALL_CLOCK = Alignment("wall-clock", 0, 0, 0.0, UNKNOWN_ERROR_NS)


@dataclass(slots=True)
class _Step:
    """A step of a rank: its begin and length, and its phases with offsets, ns."""

    start_ns: int
    dur_ns: int = 0
    phases: list[Phase] = field(default_factory=list)

    @property
    def own_ns(self) -> int:
        """What the rank spends without the others."""
        return sum(length for name, _, length in self.phases if name in _OWN)


@dataclass(slots=True)
class _Log:
    """One file: its first line, which says who wrote it, and its steps by number."""

    entry: FileEntry
    first: JsonObject = field(default_factory=dict)
    rank: int = -1
    steps: dict[int, _Step] = field(default_factory=dict)
    open: _Step | None = None

    def take(self, number: int, line: JsonObject) -> None:
        """Read the next line; raises what of ``DAMAGE`` it holds."""
        time_ns, kind = whole(line["time_us"]) * 1000, str(line["log_type_name"])
        if not self.first:
            self.rank = whole(line["rank"] if "rank" in line else line["global_rank"])
            self.first = {**line, "pid": whole(line.get("pid", -1))}
        name, _, end = kind.rpartition("_")
        if name == "step" and end == "start":
            self.open = _Step(time_ns)
        if self.open is None or end != "end":
            return
        length = whole(round(float(line["value"]) * 1e6))
        if length < 0:
            raise ValueError("a span takes time")
        if name == "step":
            step, self.open = self.open, None
            step.dur_ns = length
            if length:
                self.steps[whole(line["step"])] = step
        elif name in _PHASES:
            offset = max(time_ns - length - self.open.start_ns, 0)
            self.open.phases.append((_PHASES[name], offset, length))

    @property
    def attached(self) -> AttachedFile:
        """The file in the manifest."""
        found = self.entry.found
        return AttachedFile(
            kind=AttachedKind.PHASE_LOG, given=found.name, copy=found.path.name, rank=self.rank
        )


def add_phase_logs(
    entries: Sequence[FileEntry], builder: RunBuilder, record: PassRecord | None = None
) -> Manifest | None:
    """Add the logs of one job; returns its manifest, None without a step.

    Args:
        entries: The logs; each gets the number of its steps, or why it is left out.
        builder: Receives tables and notes.
        record: The pass that they are; one of their own without it.

    Raises:
        UnreadableInputError: The logs are of several jobs.
    """
    logs = _whole(entries, builder)
    if not logs:
        return None
    folder = next(iter(logs.values())).entry.found.path.resolve().parent
    folder = folder.parent if folder.name == "structured_logs" else folder
    name = printable(folder.name) or "job"
    record = record or phases_pass(1 + max(logs), name)
    size = record.size
    common = set.intersection(*(set(log.steps) for log in logs.values()))
    slowest = {step: max(log.steps[step].own_ns for log in logs.values()) for step in common}
    is_whole = len(logs) == size
    files = {
        rank: file_of_lines(_lines(log, size, slowest, is_whole)) for rank, log in logs.items()
    }
    if is_whole:
        exclude_evaluations(files.values())
    builder.add_block(SEGMENTS, segment_row(record, len(files)))
    is_one_host = len({str(log.first.get("host_name")) for log in logs.values()}) == 1
    for rank, file in sorted(files.items()):
        builder.add_recording(record.id, rank, file, _SAME_HOST if is_one_host else _WALL_CLOCK)
    settings = attached_settings([log.attached for log in logs.values()])
    return replace(Manifest.of_files(name), passes=[record], settings=settings)


def phases_pass(size: int, name: str, batch_size: int = 0) -> PassRecord:
    """The pass that phase logs are; a batch size of 0 is unknown."""
    record = traced_pass(size, name, "", COLLECTIVES_ENGINE, batch_size)
    return replace(record, id=f"01-np{size}-phases")


def _whole(entries: Sequence[FileEntry], builder: RunBuilder) -> dict[int, _Log]:
    """The latest log of each rank that holds steps; what is left out is noted."""
    logs: dict[int, _Log] = {}
    jobs = set()
    # The names of the logs of a rank differ in the time of their begin.
    for entry in sorted(entries, key=lambda entry: entry.found.path.name, reverse=True):
        name, log = entry.found.name, _Log(entry)
        try:
            damaged = len(read_lines(entry.found.path, log.take))
        except OSError as error:
            builder.notes.append(entry.fail(error))
            continue
        if damaged:
            text = f"{counted(damaged, 'damaged line')} skipped"
            builder.notes.append(Note(NoteCode.DAMAGED, text, number=damaged).at(name))
        if log.steps and log.rank not in logs:
            logs[log.rank] = log
            entry.num_rows = len(log.steps)
            jobs.add((entry.found.path.resolve().parent, str(log.first.get("source"))))
            continue
        why = f"a later log holds rank {log.rank}" if log.steps else "it holds no whole step"
        reason = UnreadableInputError(f"{name}: {why}; left out.")
        builder.notes.append(entry.fail(reason, NoteCode.LEFT_OUT))
    if len(jobs) > 1:
        named = (printable(f"{folder}, source {source}") for folder, source in sorted(jobs))
        raise UnreadableInputError(
            f"The phase logs are of {len(jobs)} jobs, by their folders and sources.",
            hint=f"Give the logs of one: {'; '.join(list(named)[:3])}.",
        )
    return logs


def _lines(log: _Log, size: int, slowest: dict[int, int], is_whole: bool) -> Iterator[JsonObject]:
    begin_ns = log.first["time_us"] * 1000
    yield {
        "kind": "header",
        "schema_version": RECORDER_SCHEMA_VERSION,
        "rank": log.rank,
        "size": size,
        "pid": log.first["pid"],
        "host": {"hostname": str(log.first.get("host_name", ""))},
        "monotonic_ns": begin_ns,
        "wall_ns": begin_ns,
    }
    for place, number in enumerate(sorted(slowest)):
        step = log.steps[number]
        yield {
            "kind": "step",
            "segment": _SEGMENT,
            "step": number,
            "warmup": place == 0,
            "start_ns": step.start_ns,
            "dur_ns": step.dur_ns,
            "samples": 1,
            "phases": step.phases,
            "ready": (),
            "blocked": _waits(step, slowest[number]) if is_whole else None,
            "evaluation": any(name == "evaluation" for name, _, _ in step.phases),
        }
    yield {"kind": "end", "monotonic_ns": 0}


def _waits(step: _Step, slowest_ns: int) -> list[Interval]:
    """The wait for the rank with the most own time: before the end of the last ``fwd_bwd``.

    That rank itself waits for a nanosecond: where ranks meet is known of all.
    """
    spans = [(begin, begin + length) for name, begin, length in step.phases if name == "backward"]
    if not spans:
        return []
    begin, end = min(spans)[0], max(stop for _, stop in spans)
    length = max(min(slowest_ns - step.own_ns, end - begin), 1)
    return [(end - length, length)]
