"""What recordings say of the passes of a launch: where their ranks ran, and its sessions."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.stall_watch import StallWatch
from hvdprof.launch.diagnose.watch_state import UnequalBatches
from hvdprof.launch.plan.settings import Settings
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.gpu_crowd import gpu_crowd, of_header
from hvdprof.rundir.layout import PassPaths, RunPaths, session_id
from hvdprof.rundir.manifest import Manifest, PassRecord, SegmentRecord, Status
from hvdprof.rundir.plan import (
    COLLECTIVES_ENGINE,
    OTHER_ENGINES,
    TF_MULTIWORKER,
    TORCH_DISTRIBUTED_ENGINES,
    num_beside,
)
from hvdprof.rundir.recording.recorder_format import HeaderLine

LAUNCH_ITSELF = 0
_NOTHING_RECORDED = (
    "the launch ended without an error, but no session was recorded; an elastic script is recorded "
    "from the call of the function that hvd.elastic.run of horovod.torch decorates"
)

_UNNAMED = (COLLECTIVES_ENGINE, TF_MULTIWORKER)
"""Of launches of a script that no rank has named yet."""


class ElasticProgress(PassProgress):
    """The sessions of an elastic launch by number; ``ranks`` are those of the latest."""

    def __init__(self, paths: PassPaths) -> None:
        super().__init__(paths)
        self.sessions: dict[int, PassProgress] = {}

    def update(self) -> int:
        """Read on in every recorder file of every session; the bytes read so far."""
        for number, paths in self._paths.sessions().items():
            if number not in self.sessions:
                self.sessions[number] = PassProgress(paths)
        read = sum(session.update() for session in self.sessions.values())
        if self.sessions:
            self.ranks = self.sessions[max(self.sessions)].ranks
        return read

    def ended_segments(self, size: int) -> set[str]:
        """None: a launch that is broken off has not come to the end of its training."""
        return set()


def size_of(session: PassProgress) -> int | None:
    """The number of ranks of a session as its ranks say it; None before the first has a header."""
    headers = (state.header for state in session.ranks.values())
    sizes = [int(header["size"]) for header in headers if header and "size" in header]
    return max(sizes) if sizes else None


class SessionStalls:
    """Watches the latest session of an elastic launch, as ``StallWatch`` does a launch.

    Args:
        progress: The sessions; read before each look.
        paths: The files of the launch.
        watch: Makes the watch of a session from its files and its number of ranks.
    """

    def __init__(
        self,
        progress: ElasticProgress,
        paths: PassPaths,
        watch: Callable[[PassPaths, int], StallWatch],
    ) -> None:
        self._progress = progress
        self._paths = paths
        self._make = watch
        self._number = 0
        self._watch: StallWatch | None = None

    def look(self) -> None:
        """Look at the ranks of the latest session."""
        latest = max(self._progress.sessions, default=0)
        if latest != self._number:
            size = size_of(self._progress.sessions[latest])
            if size is None:
                return
            self.finish()
            self._number = latest
            self._watch = self._make(self._paths.session(latest), size)
        if self._watch is not None:
            self._watch.look()

    def cut_off(self) -> Stall | None:
        """The stall in which the job was ended, or ended itself; None where no rank waited."""
        return None if self._watch is None else self._watch.cut_off()

    def report_cut_off(self) -> None:
        """Report the stall that the end of the job cut off, where it was too short before."""
        if self._watch is not None:
            self._watch.report_cut_off()

    def blocked(self) -> list[StalledRank]:
        """The ranks of the session whose step has not ended for long, with their stacks."""
        return [] if self._watch is None else self._watch.blocked()

    def unequal(self) -> UnequalBatches | None:
        """The ranks of the session with fewer batches; None where there are none."""
        return None if self._watch is None else self._watch.unequal()

    def finish(self) -> None:
        """The session has ended, and a stall with it."""
        if self._watch is not None:
            self._watch.finish()

    @property
    def must_end(self) -> bool:
        """Whether the launch has to be ended."""
        return self._watch is not None and self._watch.must_end

    def failure(self) -> Failure | None:
        """Why it was ended; None where a stall did not end it."""
        return None if self._watch is None else self._watch.failure()


def add_sessions(manifest: Manifest, launch: PassRecord, progress: ElasticProgress) -> bool:
    """Add the sessions that have begun since to the manifest; whether there were any."""
    present = {record.id for record in manifest.passes}
    added = [record for record in _records(launch, progress) if record.id not in present]
    place = place_after(manifest, launch)
    manifest.passes[place:place] = added
    return bool(added)


def place_after(manifest: Manifest, record: PassRecord) -> int:
    """The place in the passes after a pass, and after its sessions if it is an elastic launch."""
    return manifest.passes.index(record) + 1 + len(_sessions_of(manifest, record))


def end_sessions(
    manifest: Manifest, launch: PassRecord, progress: ElasticProgress, settings: Settings
) -> int:
    """Mark every session of a launch that has ended as done; the steps of the longest one.

    A session that a reset or a failure ended is as complete as any: all its steps happened. Steps
    that some rank has not ended do not count.
    """
    add_sessions(manifest, launch, progress)
    longest = 0
    for record in _sessions_of(manifest, launch):
        session = progress.sessions[record.session or LAUNCH_ITSELF]
        record.status, record.steal_share = Status.DONE, launch.steal_share
        record.other_cpu_cores = launch.other_cpu_cores
        for segment in record.segments:
            segment.status = Status.DONE
        refine_from_ranks(record, manifest, session, settings)
        longest = max(longest, min(state.num_steps for state in session.ranks.values()))
    return longest


def recover_sessions(manifest: Manifest, paths: RunPaths, settings: Settings) -> None:
    """Mark the sessions of launches whose end hvdprof did not see as done, from their recordings.

    That happens where hvdprof itself was killed, or its machine went down.
    """
    for launch in [record for record in manifest.passes if record.session == LAUNCH_ITSELF]:
        if launch.status == Status.RUNNING:
            progress = ElasticProgress(paths.of_pass(launch.id))
            progress.update()
            end_sessions(manifest, launch, progress, settings)


def settle_sessions(
    manifest: Manifest,
    launch: PassRecord,
    progress: ElasticProgress,
    settings: Settings,
    failure: Failure | None,
) -> None:
    """Give an elastic launch that has ended its status, and each of its sessions.

    Where all went well the sessions stand for the launch. A launch that failed keeps its segment
    with the failure; it counts as partial where a session has steps after its warm-up.
    """
    longest = end_sessions(manifest, launch, progress, settings)
    if failure is None and progress.sessions:
        launch.segments, launch.status = [], Status.DONE
        return
    has_result = longest > settings.num_warmup_batches
    for segment in launch.segments:
        segment.status = Status.PARTIAL if has_result else Status.FAILED
        segment.failure = failure or Failure(reason=_NOTHING_RECORDED)
    launch.status = Status.FAILED


def _records(launch: PassRecord, progress: ElasticProgress) -> Iterator[PassRecord]:
    for number, session in progress.sessions.items():
        size = size_of(session)
        if size is not None:
            yield replace(
                launch,
                id=session_id(launch.id, number),
                session=number,
                size=size,
                segments=[
                    SegmentRecord(segment=segment.segment, status=Status.RUNNING)
                    for segment in launch.segments
                ],
                status=Status.RUNNING,
                command=[],
                environment={},
                worker_ends=[],
            )


def _sessions_of(manifest: Manifest, launch: PassRecord) -> list[PassRecord]:
    return [
        record
        for record in manifest.passes
        if record.session and record.id == session_id(launch.id, record.session)
    ]


def refine_from_ranks(
    record: PassRecord, manifest: Manifest, progress: PassProgress, settings: Settings
) -> None:
    """Correct a pass by the headers of its recorder files, and add hosts that were not known.

    Which engine and backend a script uses is known to its ranks alone. The launches that
    are still planned get the engine, too.
    Cores and GPUs of other hosts are only known there; whether a rank really got cores of its own
    is only known to the rank.
    """
    headers = [state.header for state in progress.ranks.values() if state.header]
    if not headers:
        return
    by_host: dict[str, list[HeaderLine]] = {}
    for header in headers:
        by_host.setdefault(str(header["host"]["hostname"]), []).append(header)
    known = {host["hostname"] for host in manifest.hosts}
    new = [ranks[0]["host"] for name, ranks in by_host.items() if name not in known]
    manifest.hosts += [dict(host) for host in new]
    engines = {header.get("engine") for header in headers}
    if len(engines) == 1 and (engine := engines.pop()) in OTHER_ENGINES:
        _name(record, engine)
        for other in manifest.passes:
            if other.status == Status.PLANNED and other.engine in _UNNAMED:
                _name(other, engine)
    backends = {header.get("backend", "") for header in headers} - {""}
    if record.engine in TORCH_DISTRIBUTED_ENGINES and len(backends) == 1:
        record.controller = backends.pop()
    beside = num_beside(record.engine)
    # Replicas of one process have the threads of all.
    threads = settings.num_threads * (record.size + beside) // record.num_processes
    if settings.device == "cuda":
        crowd = gpu_crowd(
            (of_header(header, name) for name, ranks in by_host.items() for header in ranks),
            manifest,
        )
        record.oversubscribed = crowd is not None and not crowd.is_misplaced
    else:
        record.oversubscribed = any(_too_many(ranks, threads) for ranks in by_host.values())
    # Of processes that do not record it is not known.
    record.pinned = not beside and all(_own_cores(ranks, threads) for ranks in by_host.values())


def _name(record: PassRecord, engine: str) -> None:
    for segment in record.segments:
        # No Horovod writes the timeline that was planned.
        segment.segment = replace(segment.segment, engine=engine, timeline=False)


def _too_many(ranks: list[HeaderLine], num_threads: int) -> bool:
    given = set().union(*(rank.get("given_cores") or rank["affinity"] for rank in ranks))
    cores = min(len(given), int(ranks[0]["host"]["num_cores"]))
    return len(ranks) * num_threads > cores


def _own_cores(ranks: list[HeaderLine], num_threads: int) -> bool:
    cores = [set(rank["affinity"]) for rank in ranks]
    apart = sum(map(len, cores)) == len(set.union(*cores))
    return apart and all(len(own) == num_threads for own in cores)
