"""The state while logs are read: processes, communicators, problems, and the rows so far.

Tested by the readers in ``tests/ingest/nccl``.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import pandas as pd

from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.model.tables import nccl_call_tables as calls
from hvdprof.model.tables import nccl_tables as tables
from hvdprof.model.tables.nccl_call_tables import NCCL_PROBLEMS
from hvdprof.model.tables.nccl_tables import NCCL_VERSIONS

_MOST_PROBLEMS = 20_000
_MOST_QUOTES = 20_000
_LONGEST_QUOTE = 500


@dataclass(slots=True)
class Problem:
    """One problem and its repetitions."""

    kind: str
    code: int | None = None
    where: str = ""
    text: str = ""
    tag_rank: int | None = None
    host: str = ""
    pid: int | None = None
    count: int = 1
    file: str = ""
    line: int = 0
    last_line: int = 0
    process: int | None = None


@dataclass(slots=True)
class Stated:
    """One version as one process states it."""

    version: str
    build: str
    host: str
    pid: int | None
    count: int
    file: str
    line: int


class Troubles:
    """Problems and versions so far; the same text of the same process is counted, not repeated."""

    def __init__(self) -> None:
        self.num_dropped = 0
        self._problems: dict[tuple[object, ...], Problem] = {}
        self._versions: dict[tuple[object, ...], Stated] = {}

    def keep(self, problem: Problem) -> None:
        """Count a problem; beyond 20,000 different ones only their number is kept."""
        key = (problem.kind, problem.tag_rank, problem.host, problem.pid, problem.where)
        earlier = self._problems.get((*key, problem.text, problem.file))
        if earlier is not None:
            earlier.count += 1
            earlier.last_line = problem.line
        elif len(self._problems) < _MOST_PROBLEMS:
            problem.last_line = problem.line
            self._problems[(*key, problem.text, problem.file)] = problem
        else:
            self.num_dropped += 1

    def keep_version(self, stated: Stated) -> None:
        """Count a statement of a version."""
        key = (stated.version, stated.build, stated.host, stated.pid)
        earlier = self._versions.setdefault((*key, stated.file), stated)
        earlier.count += earlier is not stated

    def problems(self, progress: Sequence[tuple[str, int]]) -> pd.DataFrame:
        """The problems in the order in which they first appeared.

        Args:
            progress: Of each process, the file and line at which it last made progress.
        """
        rows = []
        for problem in self._problems.values():
            row = asdict(problem)
            process = row.pop("process")
            file, line = ("", 0) if process is None else progress[process]
            after = file == problem.file and line > problem.last_line
            rows.append({**row, "progress_line": line if after else None})
        return NCCL_PROBLEMS.frame(rows)

    def versions(self) -> pd.DataFrame:
        """The versions in the order in which they first appeared."""
        return NCCL_VERSIONS.frame([asdict(stated) for stated in self._versions.values()])


@dataclass(slots=True)
class Process:
    """One process of the job; ``members`` are indices of its ranks in ``Logbook.members``.

    ``says_coll``: it prints its collective calls under the subsystem COLL. ``progress``: file and
    line of its last finished init, connection or collective.
    """

    host: str
    pid: int
    tag_rank: int | None
    members: list[int] = field(default_factory=list)
    by_pointer: dict[str, int] = field(default_factory=dict)
    contexts: dict[int, int] = field(default_factory=dict)
    says_coll: bool = False
    progress: tuple[str, int] = ("", 0)


@dataclass(slots=True)
class Member:
    """One rank of one communicator, from the lines of its own process.

    ``announced``: a CALL line said that its init is complete, and no Init COMPLETE yet.
    """

    process: int
    pointer: str
    rank: int | None
    num_ranks: int | None
    file: str
    line: int
    context: int = -1
    comm_id: str = ""
    cuda_device: int | None = None
    nvml_device: int | None = None
    bus_id: str = ""
    num_nodes: int | None = None
    num_local_ranks: int | None = None
    num_coll_channels: int | None = None
    num_p2p_channels: int | None = None
    channels_line: int | None = None
    started: bool = False
    complete: bool = False
    announced: bool = False
    complete_order: int = -1
    end: str = ""
    end_line: int | None = None


@dataclass(slots=True)
class Message:
    """The text of one line, with its process, thread and place.

    ``raw`` is the whole line; ``word`` is the first word, which decides its kind, without a
    colon, and empty for an empty line.
    """

    text: str
    process: int
    tid: int
    level: str
    where: str
    file: str
    line: int
    raw: str
    word: str = field(init=False)

    def __post_init__(self) -> None:
        self.word = self.text.lstrip().partition(" ")[0].rstrip(":")


class Logbook:
    """Everything that has been read so far.

    A line that names no communicator belongs to a context: the lines of one thread between two
    communicators. A context gets its owner from the Init START before it or, where the version
    prints none, from the Init COMPLETE after it.
    """

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.members: list[Member] = []
        self.context_owner: list[int | None] = []
        self.context_process: list[int] = []
        self.num_completed = 0
        self.quotes: dict[tuple[str, int], str] = {}
        self.quoted_vias: set[tuple[int, str]] = set()
        self.troubles = Troubles()
        self.announcements: list[tuple[Message, str, dict[str, str]]] = []
        self.headings: dict[tuple[int, int], list[tuple[str, str]]] = {}
        self.counts: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.rows = {
            table.name: Rows(table, aside=table is calls.NCCL_CALLS)
            for table in (
                tables.NCCL_CHANNELS,
                tables.NCCL_RINGS,
                tables.NCCL_TREES,
                tables.NCCL_CONNECTIONS,
                tables.NCCL_NETWORKS,
                tables.NCCL_NICS,
                tables.NCCL_GPUDIRECT,
                tables.NCCL_SETTINGS,
                tables.NCCL_LINKS,
                tables.NCCL_TUNING,
                tables.NCCL_INIT_TIMINGS,
                calls.NCCL_CHOICES,
                calls.NCCL_CALLS,
                calls.NCCL_TRACES,
            )
        }
        self._process_of: dict[tuple[str, int], int] = {}
        self._hosts_of_pid: dict[int, list[str]] = {}

    def process(self, host: str, pid: int, tag_rank: int | None) -> int:
        """The index of a process; a host glued to text, or cut, is recognised by its pid."""
        index = self._process_of.get((host, pid))
        if index is None:
            for other in self._hosts_of_pid.get(pid, ()):
                if host.endswith(other) or other.endswith(host):
                    return self._process_of[other, pid]
            index = len(self.processes)
            self.processes.append(Process(host, pid, tag_rank))
            self._process_of[host, pid] = index
            self._hosts_of_pid.setdefault(pid, []).append(host)
        elif self.processes[index].tag_rank is None:
            self.processes[index].tag_rank = tag_rank
        return index

    def quote(self, said: Message) -> None:
        """Keep a line as evidence: up to 20,000 lines, which only logs of many failures reach."""
        self.quote_text(said.file, said.line, said.raw)

    def quote_text(self, file: str, line: int, text: str) -> None:
        """Keep a line that has no prefix as evidence."""
        if len(self.quotes) < _MOST_QUOTES:
            self.quotes.setdefault((file, line), text[:_LONGEST_QUOTE])

    def add(self, table: str, said: Message, *values: object) -> None:
        """Add a row whose last four columns are host, pid, file and line of the message."""
        process = self.processes[said.process]
        self.rows[table].append(*values, process.host, process.pid, said.file, said.line)

    def progressed(self, said: Message) -> None:
        """Note that the process got this far."""
        self.processes[said.process].progress = said.file, said.line

    def context(self, said: Message) -> int:
        """The context that a line without a communicator belongs to."""
        process = self.processes[said.process]
        context = process.contexts.get(said.tid)
        if context is None:
            context = self._new_context(said.process, None)
            process.contexts[said.tid] = context
        return context

    def owner(self, said: Message) -> Member | None:
        """The rank that the thread is initialising; ``None`` where not known yet."""
        context = self.processes[said.process].contexts.get(said.tid)
        index = None if context is None else self.context_owner[context]
        return None if index is None else self.members[index]

    def begin(self, said: Message, member: int) -> None:
        """An Init START: the further lines of the thread are about this rank."""
        process = self.processes[said.process]
        process.contexts[said.tid] = self.members[member].context

    def finish(self, said: Message, member: int) -> None:
        """An Init COMPLETE: the earlier lines of the thread were about this rank."""
        process = self.processes[said.process]
        context = process.contexts.pop(said.tid, None)
        if context is not None and self.context_owner[context] is None:
            self.context_owner[context] = member

    def add_member(self, member: Member) -> int:
        """Keep a new rank of a communicator; returns its index."""
        index = len(self.members)
        self.members.append(member)
        member.context = self._new_context(member.process, index)
        process = self.processes[member.process]
        process.members.append(index)
        process.by_pointer[member.pointer] = index
        return index

    def _new_context(self, process: int, owner: int | None) -> int:
        self.context_owner.append(owner)
        self.context_process.append(process)
        return len(self.context_owner) - 1
