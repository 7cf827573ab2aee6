"""Horovod's timeline file: what it holds, and what that means.

``docs/reference/timeline.md`` says what is read and what cannot be. ``parse`` reads the syntax;
the modules of ``meaning`` find what its columns mean.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text.text_chunks import Progress
from hvdprof.ingest.timeline.meaning.fact_counts import FactCounts
from hvdprof.ingest.timeline.meaning.file_facts import TimelineFacts, facts_of
from hvdprof.ingest.timeline.meaning.file_notes import notes_of
from hvdprof.ingest.timeline.meaning.pending import PendingNegotiation, with_missing_ranks
from hvdprof.ingest.timeline.meaning.semantics import semantics_of
from hvdprof.ingest.timeline.meaning.step_inference import InferredSteps, infer_steps
from hvdprof.ingest.timeline.meaning.ticks import cycle_of
from hvdprof.ingest.timeline.meaning.timeline_rows import (
    EventRows,
    ExecutionRows,
    UseRows,
    event_rows,
    execution_rows,
    use_rows,
)
from hvdprof.ingest.timeline.parse import read_raw
from hvdprof.ingest.timeline.syntax.clamp_timestamps import epochs_in_range
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from hvdprof.ingest.timeline.syntax.plain_path import parse_plain
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.file_names import shown_name


@dataclass(frozen=True, slots=True)
class Summary:
    """What the whole of a file says; all times in µs of the file.

    Attributes:
        size_bytes: Size of its text, after decompression.
        epoch_us: The wall clock at time 0 of the file; ``None`` where the file does not say it
            (Horovod before 0.20.1).
        steps: Steps as the file shows them, or why it shows none.
        facts: What the file says of the job.
        pending: Negotiations that are pending at the end of the file.
        end_us: The latest time in the file.
        problems: Clauses that say what was skipped or is odd.
    """

    size_bytes: int
    epoch_us: int | None
    steps: InferredSteps
    facts: TimelineFacts
    pending: tuple[PendingNegotiation, ...]
    end_us: int
    problems: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class TimelineFile:
    """What a timeline file holds; all times in µs of the file.

    Attributes:
        rows: Everything in the file, in file order.
        uses: Uses of tensors: negotiation and operation.
        executions: Executions of one tensor or of several fused ones.
        summary: What the whole of it says.
    """

    rows: EventRows
    uses: UseRows
    executions: ExecutionRows
    summary: Summary

    @property
    def epoch_us(self) -> int | None:
        """See ``Summary``."""
        return self.summary.epoch_us

    @property
    def steps(self) -> InferredSteps:
        """See ``Summary``."""
        return self.summary.steps

    @property
    def facts(self) -> TimelineFacts:
        """See ``Summary``."""
        return self.summary.facts

    @property
    def problems(self) -> tuple[Note, ...]:
        """See ``Summary``."""
        return self.summary.problems


def read_timeline_file(path: Path, *, progress: Progress | None = None) -> TimelineFile:
    """What a timeline file holds, compressed or not.

    An empty file holds nothing, and so does one that is no timeline at all: ``problems`` then says
    what it is instead, because one such file must not keep a whole run from being read.

    Args:
        path: The file.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        return understood(read_raw(path, progress=progress))
    except UnreadableInputError as error:
        clause = error.message.removeprefix(shown_name(path)).strip(" .")
        problems = (Note(NoteCode.UNREADABLE, f"it {clause}"),)
        nothing = parse_timeline("")
        return replace(nothing, summary=replace(nothing.summary, problems=problems))


def parse_timeline(text: str) -> TimelineFile:
    """What the text of a timeline file holds."""
    return understood(parse_plain(text.encode("utf-8", errors="surrogatepass")))


def understood(raw: RawTimeline) -> TimelineFile:
    """The meaning of a file whose syntax has been read."""
    known = semantics_of(raw)
    counts = FactCounts()
    counts.add(known)
    summary = summary_of(raw, counts, infer_steps(lambda: [known.reductions]))
    uses = use_rows(known).with_ties(summary.facts.cycle)
    return TimelineFile(event_rows(known), uses, execution_rows(known), summary)


def summary_of(raw: RawTimeline, counts: FactCounts, steps: InferredSteps) -> Summary:
    """The summary of a file.

    Args:
        raw: The file; its slices, ticks and marks are not looked at.
        counts: What was counted in all of its parts.
        steps: What steps the reductions of all of its parts show.
    """
    epochs = epochs_in_range(raw.epochs)
    cycle = cycle_of(counts.cycle_lengths, has_epoch=bool(epochs))
    facts = facts_of(counts, raw, cycle)
    return Summary(
        size_bytes=raw.size_bytes,
        epoch_us=epochs[0][1] if epochs else None,
        steps=steps,
        facts=facts,
        pending=with_missing_ranks(counts.pending, counts.ranks, counts.fewest_ticks),
        end_us=counts.last_us,
        problems=tuple(notes_of(raw, counts, facts)),
    )
