"""What attached files say of their job, its ranks and its engine, and where their copies lie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hvdprof.ingest.flight_recorder.dump_tables import SOURCE as FLIGHT_RECORDER
from hvdprof.ingest.logs.printed_file import PrintedFile, read_printed_file
from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.ingest.rundir.attach_sources import Source
from hvdprof.ingest.text.printed_lines import printed_lines
from hvdprof.ingest.text.text_lines import BrokenEndError
from hvdprof.ingest.timeline.horovod_timeline import TimelineFile
from hvdprof.model.cell_key import UNKNOWN
from hvdprof.model.run import Run
from hvdprof.model.tables.log_tables import AUTOTUNE, HOROVOD_LOG, STALLS
from hvdprof.model.tables.nsys_tables import NSYS_NCCL_CALLS
from hvdprof.model.tables.printed_tables import (
    RANK_STACKS,
    TRAINING_ITERATIONS,
    TRAINING_LOG_TABLES,
)
from hvdprof.model.tables.rank_collective_tables import (
    COLLECTIVE_PROGRESS,
    COLLECTIVE_TIMEOUTS,
    INSPECTOR_COLLECTIVES,
)
from hvdprof.rundir.attached import AttachedFile, AttachedKind
from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import PassRecord
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, HOROVOD_ENGINE
from hvdprof.rundir.regular_file import shown_name, unreadable

EVERY_USE = "every use"


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of ranks and the clause that says how it is known; None where no file shows it.

    ``is_uncached`` says that a timeline names ranks at every use of a tensor, as it does where the
    response cache was off.
    """

    size: int | None
    reason: str
    is_uncached: bool


def attached_size(
    *,
    timelines: Sequence[TimelineFile],
    nccl_logs: Sequence[Path],
    outputs: Mapping[Path, int | None],
    recordings: Run | None = None,
) -> Counted:
    """The number of ranks that some files show, from the surest of them.

    A timeline names the ranks at the first use of a tensor, NCCL the size of its communicators.
    Ranks in names of files, and in launchers' tags before the lines, come after that: some may be
    missing. Tags of rank 0 alone decide nothing, for in most jobs no other rank prints; then the
    world size that Megatron and NeMo print counts.

    Args:
        timelines: Horovod timelines.
        nccl_logs: NCCL logs of one job.
        outputs: Printed output, with the rank in its name.
        recordings: What the files of other recorders hold.

    Raises:
        UnreadableInputError: A file cannot be read, or is not what it is given for.
    """
    is_uncached = any(file.facts.rank_evidence.kind == EVERY_USE for file in timelines)
    named = [rank for rank in outputs.values() if rank is not None]
    named_by_timeline = max((file.facts.size or 0 for file in timelines), default=0)
    # Output may be large: it is read where no timeline decides, and once.
    printed = {} if named_by_timeline else {path: _printed(path) for path in outputs}
    sizes = {
        "the timeline names": named_by_timeline,
        "NCCL made a communicator of": _largest_communicator(nccl_logs, printed),
        "the recordings have process groups of": _largest_group(recordings),
        "there are files of": max(named, default=-1) + 1,
    }
    for reason, size in sizes.items():
        if size:
            return Counted(size, reason, is_uncached)
    tagged = max((_highest_tag(path) for path in outputs), default=-1) + 1
    if tagged > 1:
        return Counted(tagged, "lines are tagged with", is_uncached)
    stated = max((_stated_size(file) for file in printed.values()), default=0)
    return Counted(stated or None, "the output states", is_uncached)


def _printed(path: Path) -> PrintedFile:
    try:
        return read_printed_file(path)
    except OSError as error:
        raise unreadable(path, error) from error


def _largest_communicator(nccl_logs: Sequence[Path], outputs: Mapping[Path, PrintedFile]) -> int:
    """Ranks of the largest communicator in NCCL logs and output; 0 without any."""
    paths = [*nccl_logs, *(path for path, one in outputs.items() if one.nccl_processes)]
    if not paths:
        return 0
    sizes = read_nccl_logs(paths).communicators["num_ranks"].dropna()
    return int(sizes.max()) if len(sizes) else 0


def _largest_group(recordings: Run | None) -> int:
    """Ranks of the largest group that any recording states; 0 where none does."""
    if recordings is None:
        return 0
    progress = recordings.table(COLLECTIVE_PROGRESS.name)
    listed = progress["group_ranks"].unique()
    sizes = [len([rank for rank in str(ranks).split(",") if rank.strip()]) for ranks in listed]
    sizes.append(_largest_reported(progress))
    stated = (
        recordings.table(INSPECTOR_COLLECTIVES.name)["num_ranks"],
        recordings.table(TRAINING_ITERATIONS.name)["np"],
        recordings.table(NSYS_NCCL_CALLS.name)["num_ranks"],
    )
    return max([0, *sizes, *(int(size) for column in stated for size in column.dropna().unique())])


def _largest_reported(progress: pd.DataFrame) -> int:
    """Ranks of the largest communicator of which a RAS report lists every rank; 0 without any.

    A report on absent ranks alone does not say how many others there are.
    """
    largest = 0
    reported = progress[(progress["source"] == "ras").to_numpy()]
    for _, members in reported.groupby(["file", "group"], observed=True):
        ranks = set(members["rank"])
        if members["last_enqueued"].notna().any() and ranks == set(range(len(ranks))):
            largest = max(largest, len(ranks))
    return largest


def _stated_size(printed: PrintedFile) -> int:
    """The largest number of ranks that a training tool, a benchmark or PyTorch prints, else 0."""
    columns = [
        frame[name].dropna()
        for _, frame in printed.tables
        for name in ("np", "world_size")
        if name in frame
    ]
    return max((int(sizes.max()) for sizes in columns if len(sizes)), default=0)


def _highest_tag(path: Path) -> int:
    """The highest rank in a tag of a file; -1 without any."""
    highest = -1
    try:
        for line in printed_lines(path):
            if line.rank is not None and line.rank > highest:
                highest = line.rank
    except BrokenEndError:
        # The unbroken part is enough here; loading the run notes the rest.
        return highest
    except OSError as error:
        raise unreadable(path, error) from error
    return highest


_OF_HOROVOD = {HOROVOD_LOG.name, STALLS.name, AUTOTUNE.name}
_OF_TORCH = {COLLECTIVE_TIMEOUTS.name, *(table.name for table in TRAINING_LOG_TABLES)}
_OF_TORCH -= {RANK_STACKS.name}
"""Tables that PyTorch itself, Megatron, NeMo and DeepSpeed give."""


def attached_engine(
    *, timelines: Sequence[Path], outputs: Sequence[Path], recordings: Run | None
) -> str:
    """``horovod``, ``collectives`` for torch.distributed, or ``unknown`` where no file says it.

    NCCL's logs, exports of Nsight Systems and reports of NCCL say nothing: any engine uses NCCL.

    Raises:
        UnreadableInputError: An output cannot be read.
    """
    if timelines:
        return HOROVOD_ENGINE
    tables = {name for path in outputs for name, _ in _printed(path).tables}
    has_dumps = False
    if recordings is not None:
        tables |= set(recordings.row_counts)
        # A rank that hangs before its first collective has dumped its groups alone.
        sources = recordings.table(COLLECTIVE_PROGRESS.name)["source"]
        has_dumps = bool(sources.eq(FLIGHT_RECORDER).any())
    of_horovod, of_torch = (not tables.isdisjoint(own) for own in (_OF_HOROVOD, _OF_TORCH))
    if of_horovod == (of_torch or has_dumps):
        return UNKNOWN
    return HOROVOD_ENGINE if of_horovod else COLLECTIVES_ENGINE


def copies_of(sources: Sequence[Source], record: PassRecord) -> list[tuple[Source, AttachedFile]]:
    """Where each file goes: paths in the run directory, no two alike."""
    paths = PassPaths(RunPaths(Path()).of_pass(record.id).folder)
    by_kind = {kind: [source for source in sources if source.kind == kind] for kind in AttachedKind}
    segments = [segment.segment.id for segment in record.segments]
    logs = distinct([name_in_run(source.path) for source in by_kind[AttachedKind.NCCL_LOG]])
    traces = distinct([name_in_run(source.path) for source in by_kind[AttachedKind.TRACE]])
    phases = distinct([name_in_run(source.path) for source in by_kind[AttachedKind.PHASE_LOG]])
    recordings = _apart([name_in_run(source.path) for source in by_kind[AttachedKind.RECORDING]])
    outputs = by_kind[AttachedKind.OUTPUT]
    # The one output of a whole job lies where a measured run has it, so that all commands see it.
    if len(outputs) == 1 and outputs[0].rank is None:
        output_paths = [paths.stdout]
    else:
        names = distinct([_output_name(output) for output in outputs])
        output_paths = [paths.output_folder / name for name in names]
    targets = {
        AttachedKind.TIMELINE: [paths.timeline(segment) for segment in segments],
        AttachedKind.TRACE: [paths.trace_folder / name for name in traces],
        AttachedKind.PHASE_LOG: [paths.trace_folder / name for name in phases],
        AttachedKind.NCCL_LOG: [paths.nccl_folder / name for name in logs],
        AttachedKind.OUTPUT: output_paths,
        AttachedKind.RECORDING: [paths.recording_folder / name for name in recordings],
    }
    return [
        (
            one,
            AttachedFile(
                kind=one.kind, given=shown_name(one.path), copy=path.as_posix(), rank=one.rank
            ),
        )
        for kind, places in targets.items()
        for one, path in zip(by_kind[kind], places, strict=False)
    ]


def _output_name(source: Source) -> str:
    name = name_in_run(source.path)
    return name if source.rank is None else f"rank-{source.rank}-{name}"


def name_in_run(path: Path) -> str:
    """The name of a file, without its folder, as the manifest can hold it."""
    return Path(shown_name(path)).name


def distinct(names: Sequence[str]) -> list[str]:
    """Names made different by a number where they are alike, hidden ones made visible."""
    taken: set[str] = set()
    result = []
    for name in names:
        visible = name.lstrip(".") or "file"
        candidate, number = visible, 2
        while candidate in taken:
            candidate, number = f"{number}-{visible}", number + 1
        taken.add(candidate)
        result.append(candidate)
    return result


def _apart(names: Sequence[str]) -> list[str]:
    """Names as they are, in folders of their own where they are alike.

    A number before a name would be taken for the rank of a dump.
    """
    seen: dict[str, int] = {}
    result = []
    for name in names:
        number = seen[name] = seen.get(name, 0) + 1
        visible = name.lstrip(".") or "file"
        result.append(visible if number == 1 else f"{number}/{visible}")
    return result
