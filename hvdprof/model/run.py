"""A run as read from its directory or from files, where it stands, and its finished analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hvdprof.model.cached_rows import CachedRows, LazyFrames
from hvdprof.model.file_page import FilePage
from hvdprof.model.job_losses import LossCost
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.notes import Note, notes_frame, texts
from hvdprof.model.results.forecast import StoredForecast
from hvdprof.model.table_catalogue import TABLES, DerivedTables, RecordedTables, declared_table
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.scaling_tables import JOB_STEPS, LAUNCHES, LOSSES, SCALING
from hvdprof.plain_text import printable
from hvdprof.rundir.launch_format import DdpFacts
from hvdprof.rundir.manifest import NOT_ENDED, Manifest, Skipped, Status
from hvdprof.rundir.plan import HOROVOD_ENGINE


@dataclass(frozen=True, slots=True)
class Run(RecordedTables):
    """A manifest and the tables that its files hold, each an attribute too: ``run.executions``.

    Attributes:
        folder: The run directory, or the first of the standalone files.
        manifest: The manifest of the run directory. For standalone files it holds their name
            alone: no passes, no versions and no time.
        frames: The tables by name; those that the run does not hold are missing. Tables of large
            timelines are loaded at their first use (``LazyFrames``).
        notes: Warnings on skipped or unusual input.
        recorded: True for a run directory of ``hvdprof bench``, false for standalone files.
        nccl: The NCCL logs of each job.
        cached: By file, the tables of large timelines, to be read piece by piece.
        forecasts: What ``hvdprof predict`` kept beside the run, oldest first.
        ddp: How the script wraps its model in DDP; None where it does not, or where that was not
            recorded.
    """

    folder: Path
    manifest: Manifest
    frames: Mapping[str, pd.DataFrame]
    notes: tuple[Note, ...]
    recorded: bool = True
    nccl: tuple[NcclRecording, ...] = ()
    cached: Mapping[str, Mapping[str, CachedRows]] = field(default_factory=dict)
    forecasts: tuple[StoredForecast, ...] = ()
    ddp: DdpFacts | None = None

    @property
    def shown_name(self) -> str:
        """The name of the folder for tables and messages; what is not UTF-8 in it as escapes."""
        return printable(self.folder.name)

    @property
    def unread(self) -> frozenset[str]:
        """The tables whose files have not been read, and whose number of rows is unknown."""
        return self.frames.unread if isinstance(self.frames, LazyFrames) else frozenset()

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table that has rows, by name, in the order of ``model.table_catalogue``."""
        return {name: self.table(name) for name in self.row_counts}

    @property
    def row_counts(self) -> dict[str, int]:
        """The number of rows of every table that has some, by name, in the order of ``tables``.

        No table is loaded for it but those ``unread``.
        """
        known = self.frames.num_rows if isinstance(self.frames, LazyFrames) else {}
        found = {
            table.name: known[table.name] if table.name in known else len(self.frames[table.name])
            for table in TABLES
            if table.name in self.frames
        }
        return {name: number for name, number in found.items() if number}

    def table(self, name: str) -> pd.DataFrame:
        """One table by name, without rows where the run holds none.

        Raises:
            UsageError: No table has that name.
        """
        return self.frames[name] if name in self.frames else declared_table(name).empty()

    def extended(self, frames: Mapping[str, pd.DataFrame], notes: Sequence[Note]) -> "Run":
        """The run with further tables, and further notes behind its own."""
        everything = (*self.notes, *notes)
        of_notes = {NOTES.name: notes_frame(everything)} if notes else {}
        return replace(self, frames={**self.frames, **frames, **of_notes}, notes=everything)


class Sentence(NamedTuple):
    """A sentence of a verdict, and what of it stands in the headline."""

    text: str
    short: str


@dataclass(frozen=True, slots=True)
class VerdictParts:
    """What a verdict is made of, for pages that show its parts apart.

    Attributes:
        headline: The verdict without baseline, shares and fix; empty where it is short.
        lead: The stall or failure with which it begins; empty without one.
        cause_id: That of its largest loss in WATERFALL; empty where none stands out.
        rival: A second cause about as large, with its share; empty where there is none.
    """

    headline: str = ""
    lead: str = ""
    cause_id: str = ""
    rival: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict in at most three sentences with a caveat, and its numbers.

    ``model``, ``np``, ``engine`` and the efficiencies are those of the largest valid size of the
    model that scales worst; NaN where the run holds nothing to compare. ``biggest_loss`` is the
    name of the most expensive cause of ``WATERFALL`` there, empty where none stands out.
    ``caveats`` say what limits the numbers. ``is_too_busy`` says that other processes leave no
    answer. ``loss_cost`` is None without a price, and where no loss is named.
    """

    sentence: str
    model: str
    np: int
    efficiency: float
    efficiency_low: float
    efficiency_high: float
    biggest_loss: str
    biggest_loss_share: float
    engine: str = HOROVOD_ENGINE
    caveats: tuple[Note, ...] = ()
    is_too_busy: bool = False
    parts: VerdictParts = VerdictParts()
    loss_cost: LossCost | None = None

    @property
    def headline(self) -> str:
        """The verdict in one line: the fix stands in the findings, the rest beside it."""
        return self.parts.headline or self.sentence

    @property
    def caveat(self) -> str:
        """The sentences of the caveats, empty without any."""
        return " ".join(texts(self.caveats))


@dataclass(frozen=True, slots=True)
class FailedSegment:
    """A cell that failed in one pass, with the reason.

    ``rank``, ``exit_code``, ``signal`` and ``host`` are those of the process that failed first,
    ``None`` where unknown; ``lines`` are the last printed lines that explain it.
    ``is_counted`` is true where the steps before the failure are in the numbers. ``kind`` is
    ``hung``, ``stalled``, ``unequal-batches``, ``interrupted``, ``not-retried`` or None.
    """

    pass_id: str
    model: str
    np: int
    engine: str
    compression: str
    reduction: str
    reason: str
    rank: int | None
    exit_code: int | None
    signal: str | None
    lines: tuple[str, ...]
    is_counted: bool = False
    host: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class RunAnalysis(DerivedTables):
    """Finished tables and sentences; figures and reports only format them.

    ``derived`` holds the tables of the attribution by name: caused wait, collectives, waterfall.
    Each table is an attribute too: ``analysis.collectives``. ``pages`` say what attached files of
    other recorders hold.
    """

    run: Run
    verdict: Verdict
    launches: pd.DataFrame
    scaling: pd.DataFrame
    losses: pd.DataFrame
    skipped: tuple[Skipped, ...]
    failed: tuple[FailedSegment, ...]
    warning_notes: tuple[Note, ...]
    job_steps: pd.DataFrame = field(default_factory=JOB_STEPS.empty)
    findings: pd.DataFrame = field(default_factory=FINDINGS.empty)
    derived: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    pages: tuple[FilePage, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of ``warning_notes``."""
        return texts(self.warning_notes)

    @property
    def unread(self) -> frozenset[str]:
        """The tables whose files have not been read, and whose number of rows is unknown."""
        return self.derived.unread if isinstance(self.derived, LazyFrames) else frozenset()

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table of the analysis that has rows, by name, in the order of the docs."""
        frames = {table.name: self.table(table.name) for table in TABLES}
        return {name: frame for name, frame in frames.items() if len(frame)}

    @property
    def ready_tables(self) -> dict[str, pd.DataFrame]:
        """The tables of ``tables`` that need no further file to be read."""
        unread = self.unread
        known = [table.name for table in TABLES if table.name not in unread]
        return {name: frame for name in known if len(frame := self.table(name))}

    @property
    def row_counts(self) -> dict[str, int]:
        """The number of rows of every table that has some, by name, in the order of the docs."""
        return {name: len(frame) for name, frame in self.tables.items()}

    def table(self, name: str) -> pd.DataFrame:
        """One table of the analysis by name, without rows where it holds none.

        Raises:
            UsageError: No table has that name.
        """
        own = {
            JOB_STEPS.name: self.job_steps,
            LAUNCHES.name: self.launches,
            SCALING.name: self.scaling,
            LOSSES.name: self.losses,
            FINDINGS.name: self.findings,
        }
        if name in self.derived:
            return self.derived[name]
        return own[name] if name in own else declared_table(name).empty()


def standing(manifest: Manifest) -> str:
    """``is in progress``, or what ended the run early, to follow a name; empty of a whole run."""
    if manifest.status in NOT_ENDED:
        return "is in progress"
    if manifest.was_killed:
        return "was interrupted, as hvdprof was killed"
    return "was interrupted" if manifest.status == Status.INTERRUPTED else ""
