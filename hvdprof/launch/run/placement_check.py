"""Where the ranks ran by their own recordings, against the plan."""

from dataclasses import replace

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.plan.settings import Settings
from hvdprof.rundir.gpu_crowd import gpu_crowd, of_header
from hvdprof.rundir.manifest import Manifest, PassRecord, Status
from hvdprof.rundir.plan import (
    COLLECTIVES_ENGINE,
    OTHER_ENGINES,
    TF_MULTIWORKER,
    TORCH_DISTRIBUTED_ENGINES,
    num_beside,
)
from hvdprof.rundir.recording.recorder_format import HeaderLine

_UNNAMED = (COLLECTIVES_ENGINE, TF_MULTIWORKER)
"""Of launches of a script that no rank has named yet."""


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
