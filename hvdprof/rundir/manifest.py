"""The manifest: what a run was asked to do, where it ran, and how each pass ended.

History of the schema:
    1   first version
    2   settings hold no copies of options
    3   failures state their kind
"""

import shlex
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.failures.launcher_failures import Failure, with_kind
from hvdprof.rundir.json_codec import JsonObject, read_json, to_text
from hvdprof.rundir.layout import MANIFEST_NAME, RunPaths
from hvdprof.rundir.plan import HOROVOD_ENGINE, RECORDED_ONCE, Segment
from hvdprof.rundir.regular_file import check_plain, checked_inside, is_host_name, shown_name
from hvdprof.rundir.resume_file import masked_settings, separated, write_resume_file
from hvdprof.rundir.run_lock import Writer, is_written
from hvdprof.rundir.stopping import Look, Stop
from hvdprof.rundir.written_file import mode_of_files, write_whole

MANIFEST_SCHEMA_VERSION = 3
MOST_RANKS = 100_000


class Mode(StrEnum):
    """The ways of measuring, never mixed in one number (docs/architecture.md)."""

    THROUGHPUT = "throughput"
    TRACE = "trace"
    ATTRIBUTION = "attribution"


class Status(StrEnum):
    """The progress of a run, pass or segment; ``--resume`` continues what is ``INTERRUPTED``.

    ``PARTIAL`` is a segment that failed after steps enough for a result.
    """

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    PARTIAL = "partial"
    INTERRUPTED = "interrupted"


NOT_ENDED = (Status.PLANNED, Status.RUNNING)
"""The status of what is still to come or going on."""


@dataclass(slots=True, kw_only=True)
class SegmentRecord:
    """A segment of a pass and what became of it."""

    segment: Segment
    status: str = Status.PLANNED
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """A process of an elastic launch that failed, as the launcher reported it.

    ``rank`` is the one that it was started with; ``lines`` are the last that it printed as errors.
    """

    rank: int
    exit_code: int
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class PassRecord:
    """One launch: command, environment, host conditions and end.

    ``repeat`` counts from 1. ``environment`` holds what hvdprof set on top of the inherited
    environment. ``other_cpu_cores`` is the number of cores that processes outside the pass kept
    busy on this machine while it ran, ``steal_share`` the share of time that the hypervisor took.
    ``launched_ns`` is the wall clock when its launcher was started, once it has ended.
    Launches that took turns divide the time that they took together into equal ``duration_s``.
    ``session`` is 0 for an elastic launch, 1, 2, ... for each of its sessions between two resets,
    which are passes of their own, and None for every other launch; ``worker_ends`` are the
    processes of an elastic launch that failed, in the order in which they did. ``left_behind`` are
    hosts that still hold files of their ranks, which ``--resume`` fetches. ``restarts`` are the
    reasons why it was started again before any rank had begun: failures of its launcher.
    """

    id: str
    mode: str
    size: int
    repeat: int
    controller: str
    oversubscribed: bool
    pinned: bool
    segments: list[SegmentRecord]
    status: str = Status.PLANNED
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    started_at: str | None = None
    launched_ns: int | None = None
    duration_s: float | None = None
    exit_code: int | None = None
    other_cpu_cores: float | None = None
    steal_share: float | None = None
    session: int | None = None
    worker_ends: list[WorkerEnd] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)

    @property
    def engine(self) -> str:
        """The engine of its segments, which share one; ``horovod`` where it has none left."""
        return self.segments[0].segment.engine if self.segments else HOROVOD_ENGINE

    @property
    def num_processes(self) -> int:
        """The processes that record: one per rank, but for strategies of one recording."""
        return 1 if self.engine in RECORDED_ONCE else self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A cell of the design that cannot run or would not be what its name says."""

    model: str
    size: int
    compression: str
    reduction: str
    reason: str
    engine: str = HOROVOD_ENGINE


@dataclass(slots=True, kw_only=True)
class Manifest:
    """Everything about a run that is not a recording.

    ``options`` are what the user asked for, ``settings`` what presets, the machine and the launcher
    decided. Attached files and network measurements have no options.

    A run with a precision or a budget plans one repeat after the other: ``looks`` hold what was
    known after each of them, and ``stop`` why there were no more. ``elapsed_s`` is the time that
    its launches have taken, resumed parts included.

    Runs whose launches were interleaved have the same ``paired_by``; it is empty for all others.
    ``writer`` is the hvdprof that measures, until it has said how the run ended.
    """

    schema_version: int
    hvdprof_version: str
    name: str
    created_at: str
    command: list[str]
    settings: JsonObject
    environment: dict[str, str]
    versions: dict[str, str]
    hosts: list[JsonObject]
    git: JsonObject | None
    passes: list[PassRecord]
    skipped: list[Skipped]
    status: str = Status.PLANNED
    warnings: list[str] = field(default_factory=list)
    options: JsonObject = field(default_factory=dict)
    elapsed_s: float = 0.0
    looks: list[Look] = field(default_factory=list)
    stop: Stop | None = None
    paired_by: str = ""
    writer: Writer | None = None

    @property
    def was_killed(self) -> bool:
        """Whether the hvdprof that measured is gone and has not said how the run ended."""
        return self.status == Status.INTERRUPTED and self.writer is not None

    @classmethod
    def of_files(cls, name: str) -> "Manifest":
        """What is known of files that no run of hvdprof wrote: the name they are given."""
        return cls(
            schema_version=MANIFEST_SCHEMA_VERSION,
            hvdprof_version="",
            name=name,
            created_at="",
            command=[],
            settings={},
            environment={},
            versions={},
            hosts=[],
            git=None,
            passes=[],
            skipped=[],
            status=Status.DONE,
        )

    def resume_command(self, folder: Path) -> str:
        """The command that resumes the run; a function is passed to its runner again."""
        script = self.settings.get("script")
        if script and script.get("is_function"):
            return "FunctionRunner(...).run(...)"
        return f"hvdprof {'run' if script else 'bench'} --resume {shlex.quote(str(folder))}"

    def write(self, paths: RunPaths) -> None:
        """Write the manifest whole into the run directory, without the secrets of a command.

        What ``--resume`` needs of them is written beside it. Who may read the folder may read the
        manifest.

        Raises:
            StorageError: A file could not be written.
        """
        if self.status not in NOT_ENDED:
            self.writer = None
        if self.options and not (self.settings.get("script") or {}).get("is_function"):
            write_resume_file(paths, self.settings, self.options)
        shown = replace(
            self, settings=masked_settings(self.settings), options=masked_settings(self.options)
        )
        write_whole(paths.manifest, to_text(shown), mode=mode_of_files(paths.folder))

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a run directory; interrupted where the hvdprof that measured is gone.

        Raises:
            UnreadableInputError: There is none, it is damaged or states a name that is none, or a
                newer hvdprof wrote it.
        """
        paths = RunPaths(folder)
        try:
            is_there = paths.manifest.is_file()
        except OSError as error:
            raise UnreadableInputError(
                f"{shown_name(folder)} cannot be read: {error.strerror}.",
                hint="Its owner lets a group read it with `chmod -R g+rX RUN`.",
            ) from error
        if not is_there:
            raise UnreadableInputError(
                f"{shown_name(folder)} is not a run directory: it holds no {MANIFEST_NAME}.",
                hint="Give the folder that `hvdprof bench` named, usually runs/<time>-<name>.",
            )
        try:
            checked_inside(folder, paths.manifest)
        except OSError as error:
            raise UnreadableInputError(
                f"{shown_name(paths.manifest)} is not read: {error.strerror}."
            ) from error
        manifest = read_json(cls, paths.manifest)
        if manifest.schema_version > MANIFEST_SCHEMA_VERSION:
            raise UnreadableInputError(
                f"{shown_name(paths.manifest)} has schema version {manifest.schema_version}; "
                f"this hvdprof reads up to {MANIFEST_SCHEMA_VERSION}.",
                hint="pip install --upgrade hvdprof",
            )
        try:
            _check_names(manifest)
            if manifest.schema_version < 2:
                known = separated(manifest.settings, manifest.options)
                manifest.settings, manifest.options = known
            if manifest.schema_version < MANIFEST_SCHEMA_VERSION:
                for segment in (part for record in manifest.passes for part in record.segments):
                    segment.failure = segment.failure and with_kind(segment.failure)
                manifest.schema_version = MANIFEST_SCHEMA_VERSION
        except ValueError as error:
            raise UnreadableInputError(
                f"{shown_name(paths.manifest)} is not read: {error}.",
                hint="hvdprof does not write this: the file was changed.",
            ) from error
        if manifest.status in NOT_ENDED and not is_written(folder, manifest.writer):
            manifest.status, manifest.writer = Status.INTERRUPTED, manifest.writer or Writer()
        return manifest


def _check_names(manifest: Manifest) -> None:
    """Check every name that becomes a path or a word of a command line, and what is counted by.

    Raises:
        ValueError: One is not plain, or a value is none that hvdprof writes.
    """
    script = manifest.settings.get("script")
    if script is not None and not isinstance(script, dict):
        raise ValueError("settings.script is no object")
    env = manifest.options.get("env") or []
    if not isinstance(env, list) or not all(isinstance(text, str) for text in env):
        raise ValueError("options.env is no list of texts")
    for facts in manifest.hosts:
        if not isinstance(facts.get("num_cores") or 0, int):
            raise ValueError("num_cores of a host is no number")
    for record in manifest.passes:
        check_plain(record.id, "pass id")
        # Every rank has a file that is looked for.
        if not 0 <= record.size <= MOST_RANKS:
            raise ValueError(f"pass {record.id} has {record.size} ranks")
        for segment in record.segments:
            check_plain(segment.segment.id, "segment")
        for host in record.left_behind:
            if not is_host_name(host):
                raise ValueError(f"host {host[:60]!a} is no plain name")
