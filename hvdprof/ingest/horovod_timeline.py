"""Horovod's timeline file: what it holds, and what that means.

``docs/timeline.md`` tells what is read and what cannot be. The syntax is read by
``ingest.timeline.read``; the meaning is made of its columns by the modules beside it.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.timeline.chunks import Progress
from hvdprof.ingest.timeline.facts import TimelineFacts, facts_of
from hvdprof.ingest.timeline.inferred_steps import InferredSteps
from hvdprof.ingest.timeline.notes import notes_of
from hvdprof.ingest.timeline.plain_road import parse_plain
from hvdprof.ingest.timeline.raw import RawTimeline
from hvdprof.ingest.timeline.read import read_raw
from hvdprof.ingest.timeline.rows import (
    EventRows,
    ExecutionRows,
    UseRows,
    event_rows,
    execution_rows,
    use_rows,
)
from hvdprof.ingest.timeline.semantics import semantics_of


@dataclass(frozen=True, slots=True)
class TimelineFile:
    """What a timeline file holds; all times in µs of the file.

    Attributes:
        epoch_us: The wall clock at time 0 of the file; ``None`` where the file does not say it
            (Horovod before 0.20.1).
        rows: Everything in the file, in file order.
        uses: Uses of tensors: negotiation and operation.
        executions: Executions of one tensor or of several fused ones.
        steps: Steps as the file shows them, or why it shows none.
        facts: What the file says of the job.
        problems: Clauses that say what was skipped or is odd.
    """

    epoch_us: int | None
    rows: EventRows
    uses: UseRows
    executions: ExecutionRows
    steps: InferredSteps
    facts: TimelineFacts
    problems: tuple[str, ...]


def read_timeline_file(path: Path, *, progress: Progress | None = None) -> TimelineFile:
    """What a timeline file holds, compressed or not.

    An empty file holds nothing, and so does one that is no timeline at all: ``problems`` then says
    what it is instead, because one such file must not keep a whole run from being read.

    Args:
        path: The file.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        MissingExtraError: It is a zstd file, and zstandard is not installed.
        OSError: The file cannot be read.
    """
    try:
        return understood(read_raw(path, progress=progress))
    except UnreadableInputError as error:
        clause = error.message.removeprefix(str(path)).strip(" .")
        return replace(parse_timeline(""), problems=(f"it {clause}",))


def parse_timeline(text: str) -> TimelineFile:
    """What the text of a timeline file holds."""
    return understood(parse_plain(text.encode("utf-8", errors="surrogatepass")))


def understood(raw: RawTimeline) -> TimelineFile:
    """The meaning of a file whose syntax has been read."""
    known = semantics_of(raw)
    facts = facts_of(known)
    return TimelineFile(
        epoch_us=known.raw.epoch_us,
        rows=event_rows(known),
        uses=use_rows(known),
        executions=execution_rows(known),
        steps=known.steps,
        facts=facts,
        problems=tuple(notes_of(known, facts)),
    )
