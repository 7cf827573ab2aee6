"""Per-rank phase logs of torchtitan (``structured_logs/*.jsonl``) as a recording of all ranks.

A line is the begin or the end of a span: ``step``, ``fetching_batch``, ``fwd_bwd``, ``optim`` ...,
with the wall clock of the host. No line says how long a rank waits. In synchronous training every
rank waits until the last one is through what no other rank takes part in (``_OWN``): so much less
is left of its ``fwd_bwd``. Waits for a rank that is slow in there remain unseen.

Tested in ``tests/ingest/test_phase_logs.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.file_entry import FileEntry
from hvdprof.ingest.kineto.traced_pass import segment_row, traced_pass
from hvdprof.ingest.recorder.clock_alignment import UNKNOWN_ERROR_NS, Alignment
from hvdprof.ingest.recorder.job_evaluations import exclude_evaluations
from hvdprof.ingest.recorder.recorder_file import RecorderFile
from hvdprof.ingest.recorder.recorder_lines import file_of_lines
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.run_tables import SEGMENTS
from hvdprof.plain_text import printable
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_settings
from hvdprof.rundir.json_codec import JsonObject, read_lines
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.plan import COLLECTIVES_ENGINE
from hvdprof.rundir.recorder_format import SAME_CLOCK, Interval, Phase, StepLine
from hvdprof.units import counted

_PHASES = {
    "fetching_batch": "data",
    "fwd_bwd": "backward",
    "optim": "optimizer",
    "optimizer": "optimizer",
    "eval": "evaluation",
    "gc_collect": "gc_collect",
    "checkpoint_save": "checkpoint_save",
}
"""Spans that count, and their phase; the others lie within them, or around the steps."""
_OWN = ("data", "gc_collect")
_SEGMENT = "main"


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
    """One file: who wrote it, and its steps by number."""

    entry: FileEntry
    rank: int = -1
    host: str = ""
    pid: int = -1
    first_us: int = 0
    steps: dict[int, _Step] = field(default_factory=dict)
    open: _Step | None = None

    def take(self, number: int, line: JsonObject) -> None:
        """Read the next line; raises what of ``DAMAGE`` it holds."""
        time_ns, kind = whole(line["time_us"]) * 1000, str(line["log_type_name"])
        if self.rank < 0:
            self.rank = whole(line["rank"] if "rank" in line else line["global_rank"])
            self.host, self.pid = str(line.get("host_name", "")), whole(line.get("pid", -1))
            self.first_us = time_ns // 1000
        name, _, end = kind.rpartition("_")
        if name == "step" and end == "start":
            self.open = _Step(time_ns)
        if self.open is None or end != "end":
            return
        length = round(float(line["value"]) * 1e6)
        if name == "step":
            step, self.open = self.open, None
            step.dur_ns = length
            if length > 0:
                self.steps[whole(line["step"])] = step
        elif name in _PHASES:
            offset = max(time_ns - length - self.open.start_ns, 0)
            self.open.phases.append((_PHASES[name], offset, length))


def add_phase_logs(entries: Sequence[FileEntry], builder: RunBuilder) -> Manifest | None:
    """Add the logs of one job; returns its manifest, None without a step.

    Args:
        entries: The logs; each gets the number of its steps, or why it is left out.
        builder: Receives tables and notes.

    Raises:
        UnreadableInputError: The logs are of several jobs.
    """
    folders = sorted({entry.found.path.resolve().parent for entry in entries})
    if len(folders) > 1:
        raise UnreadableInputError(
            f"The phase logs lie in {len(folders)} folders: they are of as many jobs.",
            hint=f"Give one of: {', '.join(map(printable, map(str, folders[:3])))}.",
        )
    logs = list(_whole(entries, builder))
    if not logs:
        return None
    folder = folders[0].parent if folders[0].name == "structured_logs" else folders[0]
    name = printable(folder.name) or "job"
    size = 1 + max(log.rank for log in logs)
    record = traced_pass(size, name, "", COLLECTIVES_ENGINE)
    record = replace(record, id=f"01-np{size}-phases")
    common = set.intersection(*(set(log.steps) for log in logs))
    slowest = {step: max(log.steps[step].own_ns for log in logs) for step in common}
    is_whole = len(logs) == size
    files: dict[int, RecorderFile] = {}
    for log in logs:
        log.entry.num_rows = len(log.steps)
        files[log.rank] = file_of_lines(_lines(log, size, slowest, is_whole))
    if is_whole:
        exclude_evaluations(files.values())
    builder.add_block(SEGMENTS, segment_row(record, len(files)))
    hosts = {log.host for log in logs}
    clock = Alignment("wall-clock", 0, 0, 0.0, UNKNOWN_ERROR_NS)
    same = Alignment(SAME_CLOCK, 0, 0, 0.0, 0)
    for rank, file in sorted(files.items()):
        builder.add_recording(record.id, rank, file, same if len(hosts) == 1 else clock)
    attached = [
        AttachedFile(
            kind=AttachedKind.PHASE_LOG,
            given=log.entry.found.name,
            copy=log.entry.found.path.name,
            rank=log.rank,
        )
        for log in logs
    ]
    return replace(Manifest.of_files(name), passes=[record], settings=attached_settings(attached))


def _whole(entries: Sequence[FileEntry], builder: RunBuilder) -> Iterator[_Log]:
    """The logs that hold steps, the latest of each rank; what is left out is noted."""
    latest: dict[int, _Log] = {}
    for entry in entries:
        log = _Log(entry)
        try:
            damaged = read_lines(entry.found.path, log.take)
        except OSError as error:
            builder.notes.append(entry.fail(error))
            continue
        if damaged:
            text = f"{counted(len(damaged), 'damaged line')} skipped"
            builder.notes.append(
                Note(NoteCode.DAMAGED, text, number=len(damaged)).at(entry.found.name)
            )
        before = latest.get(log.rank)
        if not log.steps:
            reason = f"{entry.found.name}: it holds no whole step; left out."
        elif before is None:
            latest[log.rank] = log
            continue
        else:
            log, older = (log, before) if log.first_us > before.first_us else (before, log)
            latest[log.rank] = log
            entry = older.entry
            reason = f"{entry.found.name}: a later log holds rank {log.rank}; left out."
        builder.notes.append(entry.fail(UnreadableInputError(reason), NoteCode.LEFT_OUT))
    yield from latest.values()


def _lines(log: _Log, size: int, slowest: dict[int, int], is_whole: bool) -> Iterator[JsonObject]:
    host = {"hostname": log.host}
    times = {"monotonic_ns": log.first_us * 1000, "wall_ns": log.first_us * 1000}
    yield {"kind": "header", "schema_version": 1, "rank": log.rank, "size": size, "pid": log.pid,
           "host": host, **times}  # fmt: skip
    for number in sorted(slowest):
        step = log.steps[number]
        line: StepLine = {
            "kind": "step",
            "segment": _SEGMENT,
            "step": number,
            "warmup": number == min(slowest),
            "start_ns": step.start_ns,
            "dur_ns": step.dur_ns,
            "samples": 1,
            "phases": step.phases,
            "ready": (),
            "blocked": _waits(step, slowest[number]) if is_whole else None,
        }
        if any(name == "evaluation" for name, _, _ in step.phases):
            line["evaluation"] = True
        yield dict(line)
    yield {"kind": "end", "monotonic_ns": 0}


def _waits(step: _Step, slowest_ns: int) -> list[Interval]:
    """The wait for the rank with the most own time: before the end of the last ``fwd_bwd``.

    That rank itself waits for a nanosecond: where ranks meet is known of all.
    """
    spans = [
        (offset, offset + length) for name, offset, length in step.phases if name == "backward"
    ]
    if not spans:
        return []
    begin, end = min(spans)[0], max(stop for _, stop in spans)
    length = max(min(slowest_ns - step.own_ns, end - begin), 1)
    return [(end - length, length)]
