"""Horovod's timeline file: what it holds, and what that means.

``docs/timeline.md`` tells what is read and what cannot be. The syntax is read by
``ingest.timeline.plain_road``; the meaning is made of its columns by the modules beside it.
"""

from dataclasses import dataclass
from pathlib import Path

from hvdprof.ingest.timeline.facts import TimelineFacts, facts_of
from hvdprof.ingest.timeline.inferred_steps import InferredSteps
from hvdprof.ingest.timeline.notes import notes_of
from hvdprof.ingest.timeline.plain_road import parse_plain
from hvdprof.ingest.timeline.raw import RawTimeline
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


def read_timeline_file(path: Path) -> TimelineFile:
    """What a timeline file holds; an empty file holds nothing.

    Raises:
        OSError: The file cannot be read.
    """
    return understood(parse_plain(path.read_bytes()))


def parse_timeline(text: str) -> TimelineFile:
    """What the text of a timeline file holds."""
    return understood(parse_plain(text.encode("utf-8", errors="surrogatepass")))


def understood(raw: RawTimeline) -> TimelineFile:
    """The meaning of a file whose syntax has been read."""
    known = semantics_of(raw)
    facts = facts_of(known)
    return TimelineFile(
        epoch_us=raw.epoch_us,
        rows=event_rows(known),
        uses=use_rows(known),
        executions=execution_rows(known),
        steps=known.steps,
        facts=facts,
        problems=tuple(notes_of(known, facts)),
    )
