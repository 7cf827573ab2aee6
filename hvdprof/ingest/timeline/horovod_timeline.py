"""Horovod's timeline file: what it holds, and what that means.

``docs/reference/timeline.md`` says what is read and what cannot be. ``parse`` reads the syntax;
the modules of ``meaning`` find what its columns mean.
"""

import io
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text.text_chunks import CHUNK_BYTES, Chunks, Progress
from hvdprof.ingest.timeline.machine_code import NotCompiledError, has_numba
from hvdprof.ingest.timeline.meaning.fact_counts import (
    FactCounts,
    PendingNegotiation,
    with_missing_ranks,
)
from hvdprof.ingest.timeline.meaning.file_facts import TimelineFacts, facts_of, notes_of
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
from hvdprof.ingest.timeline.syntax.pairing import Pairing, PlainPairing
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline, epochs_in_range
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from hvdprof.model.notes import Note, NoteCode
from hvdprof.rundir.regular_file import open_regular, shown_name

SMALL_BYTES = 4_000_000
"""Files below this size take the plain path."""

SLOW_BYTES = 200_000_000
SLOW_HINT = "pip install 'hvdprof[fast]' reads it some twenty times faster."
"""The hint where ``is_slow``."""


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


def read_raw(path: Path, *, progress: Progress | None = None) -> RawTimeline:
    """The records of a timeline file, of any layout, damage or compression.

    An empty file, or one that holds an empty list, has no records and is no error.

    Args:
        path: The file; its content says whether it is gzip or zstd.
        progress: Called with the bytes of the file read so far and its size.

    Raises:
        UnreadableInputError: It holds nothing usable; the message says what it is instead.
        OSError: It cannot be read.
    """
    size = path.stat().st_size
    try:
        raw = _read(path, size, _pairing_for(size), progress)
    except NotCompiledError:
        raw = _read(path, size, PlainPairing(), progress)
    refuse_unusable(path, raw)
    return raw


def _read(path: Path, size: int, pairing: Pairing, progress: Progress | None) -> RawTimeline:
    with open_regular(path) as source:
        return Reader(Chunks(source, size, progress=progress), pairing).read()


def refuse_unusable(path: Path, raw: RawTimeline) -> None:
    """Raise for a file that was read to its end and holds nothing usable.

    Raises:
        UnreadableInputError: The message says what the file is instead.
    """
    if raw.foreign:
        raise UnreadableInputError(
            f"{shown_name(path)} is {raw.foreign}, not a Horovod timeline.",
            hint="Horovod writes its own with HOROVOD_TIMELINE, or horovodrun --timeline-filename.",
        )
    usable = sum(number for kind, number in raw.num_records.items() if kind != "other")
    if raw.damage.num_places and not usable:
        raise UnreadableInputError(
            f"{shown_name(path)} holds no record of a Horovod timeline: {_what_is(path, raw)}.",
            hint="Give the file that HOROVOD_TIMELINE named on rank 0.",
        )


def is_slow(path: Path) -> bool:
    """Whether a file is so large that reading it without numba is worth a word to the user."""
    return path.stat().st_size >= SLOW_BYTES and not has_numba()


def _pairing_for(size: int) -> Pairing:
    # Below this, starting the compiled code takes longer than reading without it.
    if size < SMALL_BYTES or not has_numba():
        return PlainPairing()
    from hvdprof.ingest.timeline.compiled.fast_path import FastPairing

    return FastPairing(expected_bytes=size)


def _what_is(path: Path, raw: RawTimeline) -> str:
    if raw.layout.compression:
        return raw.damage.places[-1].what
    with open_regular(path) as source:
        head = source.read(4096)
    if b"\0" in head:
        return "it is binary data"
    first = head.lstrip()[:1]
    return "it is JSON of another kind or cut off" if first in (b"{", b"[") else "it is other text"


def parse_plain(content: bytes, *, chunk_bytes: int = CHUNK_BYTES) -> RawTimeline:
    """What the content of a file says; never an error."""
    chunks = Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes)
    return Reader(chunks, PlainPairing()).read()
