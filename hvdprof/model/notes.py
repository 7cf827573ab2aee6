"""What limits a run, an analysis or a verdict: a code with its values, and the sentence to show."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Self

import pandas as pd

from hvdprof.model.tables.log_tables import NOTES


class NoteCode(StrEnum):
    """What a note says; ``doc`` is its meaning. A rule asks for a code, never for words."""

    doc: str

    def __new__(cls, code: str, doc: str = "") -> Self:
        """A code with its meaning."""
        one = str.__new__(cls, code)
        one._value_, one.doc = code, doc
        return one

    NOT_READ = "not-read", "A path is no regular file, too deep, lists nothing, or has no manifest."
    UNREADABLE = "unreadable", "A file cannot be read, or holds nothing that is known."
    LEFT_OUT = "left-out", "A file is whole, but no part of the job that the others are of."
    ARCHIVE = "archive", "Entries of an archive are damaged or left out."
    CUT_SHORT = "cut-short", "Compressed data ends early."
    LONG_LINE = "long-line", "Of a line, only the beginning is read."
    DAMAGED = "damaged", "Lines, records or places in a file are damaged or cut off."
    OMITTED = "omitted", "Whole records are left out: foreign, unknown, doubtful or unplaced."
    FAULTS_INJECTED = "faults-injected", "Faults were injected on purpose; `value` is the plan."
    RECORDER_PROBLEM = "recorder-problem", "The recorder of a rank reported a failure."
    NO_RECORDING = "no-recording", "Ranks of a pass left no recording."
    NO_END = "no-end", "A rank did not end on its own: its recording has no end."
    SCHEMA = "schema", "Another version of the recorder wrote the file, or it has no header."
    NO_TIMELINE = "no-timeline", "A pass left no timeline."
    NO_CLOCK = "no-clock", "Times of a file cannot be placed on the clock of other ranks."
    CLOCK_JUMPS = "clock-jumps", "Times in a file fall back, or are moved to possible ones."
    NEVER_BEGIN = "never-begin", "Events end without a beginning; `number` counts them."
    NEVER_END = "never-end", "Events begin and never end; `number` counts them."
    SEVERAL_RECORDINGS = "several-recordings", "A timeline holds those of several processes."
    JOB_FACT = "job-fact", "A timeline shows what the job did: autotuning, joined ranks, errors."
    ONE_PROCESS = "one-process", "One process wrote several timelines."
    STALL = "stall", "Ranks of a pass were blocked, as hvdprof's watchdog saw."
    NET_UNMEASURED = "net-unmeasured", "The network between two hosts was not measured."
    UNMATCHED = "unmatched", "Collectives have no partner on another rank; `number` counts them."
    INFERRED_STEPS = "inferred-steps", "Steps are inferred, since the traces mark none."
    ALLOCATION = (
        "allocation",
        "GPU memory is allocated and freed within steps; `value` is the share.",
    )
    NOT_COMPARED = "not-compared", "Throughputs beside traces are not compared."
    NO_RANKS = "no-ranks", "A log names no rank or number of ranks where others do."
    TEST_FAILED = "test-failed", "A run of nccl-tests failed, or printed no row."
    NO_TIMING = "no-timing", "A log states no time of an iteration."
    NCCL_LINES = "nccl-lines", "Lines of NCCL's are not understood, cut, or put together again."
    AMBIGUOUS = "ambiguous", "Communicators that a log does not distinguish."

    # What limits the numbers of an analysis.
    MEASUREMENT = "measurement", "What hvdprof warned of while it measured or attached."
    PROVISIONAL = "provisional", "The run is in progress."
    FAILED = "failed", "Measurements failed and are excluded."
    ENDED_EARLY = "ended-early", "Launches ended early; only steps before that count."
    RESTARTED = "restarted", "The launcher failed before any rank began, and was started again."
    OVERSUBSCRIBED = "oversubscribed", "There are more ranks than cores or GPUs."
    UNFINISHED = "unfinished", "The run was interrupted."
    MISSING_RANKS = "missing-ranks", "Not all ranks were recorded: wait attribution unavailable."
    UNSEEN_WAITS = (
        "unseen-waits",
        "Waits within a strategy, or within DataParallel, are not seen.",
    )
    UNALIGNED_CLOCKS = "unaligned-clocks", "Recordings have no clock offset to rank 0."
    OTHER_LOAD = "other-load", "Other processes kept cores busy."
    TOO_BUSY = (
        "too-busy",
        "Other processes leave no answer; `value` is the command to measure anew.",
    )
    PAUSES = "pauses", "All ranks pause, such as for checkpoints: step times contain it."
    STEAL = "steal", "The hypervisor took cores away."
    UNEQUAL_THREADS = "unequal-threads", "Ranks computed with different numbers of threads."
    NOT_PINNED = "not-pinned", "Ranks were not pinned to cores."
    UNSTEADY = "unsteady", "Launches have no steady state."
    DRIFT = "drift", "The step time drifts within launches."
    FEW_STEPS = "few-steps", "There are too few steady steps."
    UNEVEN_STEPS = "uneven-steps", "Ranks have different numbers of steps."
    ONE_LAUNCH = "one-launch", "One launch per cell: differences between launches are unknown."
    WIDE_INTERVAL = "wide-interval", "A 95 % CI is wider than ±10 % of the value."
    NEGATIVE_OVERHEAD = "negative-overhead", "The trace overhead is not measurable."
    LIGHT = "light", "A light recording holds means over windows of steps."
    EVALUATION = "evaluation", "Evaluations are in no rate or step time."
    NO_BASELINE = "no-baseline", "Nothing here measures how the job scales."
    NO_WAITS = "no-waits", "The recording does not separate waits from work."
    OFFSET = "offset", "A gain of the cell offsets part of its losses."
    OF_FILE = "of-file", "The caveat of an attached file."


@dataclass(frozen=True, slots=True)
class Note:
    """One note, warning or caveat. ``text`` is shown, and read back by nothing.

    The text of a reader is a clause without a full stop, until ``at`` makes it a sentence.

    Attributes:
        code: What it says.
        text: The sentence.
        pass_id: The pass that it is on; empty where it is on none.
        rank: The rank, where it is on one alone.
        number: How many of what the code names, where they are counted.
        value: What was found, as text.
    """

    code: NoteCode
    text: str
    pass_id: str = ""
    rank: int | None = None
    number: int | None = None
    value: str = ""

    def at(self, where: str, pass_id: str = "", ranks: Sequence[int] = ()) -> "Note":
        """The clause as a sentence that begins with the place; of a pass and of ranks."""
        stop = "" if self.text.endswith(".") else "."
        rank = ranks[0] if len(ranks) == 1 else None
        return replace(self, text=f"{where}: {self.text}{stop}", pass_id=pass_id, rank=rank)


def texts(notes: Iterable[Note]) -> tuple[str, ...]:
    """The sentences of some notes."""
    return tuple(note.text for note in notes)


def notes_frame(notes: Iterable[Note]) -> pd.DataFrame:
    """NOTES of some notes."""
    rows = map(asdict, notes)
    return NOTES.frame([row | {"code": str(row["code"]), "note": row.pop("text")} for row in rows])


def notes_in(frame: pd.DataFrame) -> tuple[Note, ...]:
    """The notes that a frame of NOTES holds."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return tuple(
        Note(NoteCode(row.pop("code")), row.pop("note"), **{str(k): row[k] for k in row})
        for row in rows
    )
