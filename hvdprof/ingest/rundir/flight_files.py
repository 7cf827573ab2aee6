"""Files of other recorders in a run: Flight Recorder files of its launches, and those attached."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.flight_recorder.dump_columns import DumpColumns, group_labels, read_dump_columns
from hvdprof.ingest.flight_recorder.dump_file import ARRIVALS_ONLY, DumpCall
from hvdprof.ingest.flight_recorder.dump_tables import SOURCE
from hvdprof.ingest.load_files import load_files
from hvdprof.ingest.recognise import Found, recognise
from hvdprof.ingest.recorder.recorder_file import RecorderFile
from hvdprof.ingest.recorder.recorder_lines import read_recorder_clock
from hvdprof.ingest.recorder.session_rows import Alignment, alignment_of
from hvdprof.ingest.storage import parquet_cache
from hvdprof.ingest.storage.blocks import Block, stacked
from hvdprof.ingest.tables.collective_matching import POINT_TO_POINT
from hvdprof.ingest.tables.run_builder import below_each_other
from hvdprof.model.arrays import Int64s
from hvdprof.model.cached_rows import LazyFrames
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.model.schema import names
from hvdprof.model.table_catalogue import declared_table
from hvdprof.model.tables.log_tables import FILES
from hvdprof.model.tables.rank_collective_tables import NO_MATCH, RANK_COLLECTIVES
from hvdprof.model.tables.run_tables import STEPS
from hvdprof.rundir.attached import AttachedKind, attached_files
from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import Mode, PassRecord
from hvdprof.rundir.regular_file import checked_inside, show_as, shown_name

_SHOWN_FOLDER = "recordings"


def with_flight_files(run: Run) -> Run:
    """The run with the collectives that its trace launches noted; the same run without files.

    No file is read before ``rank_collectives`` is used: 512 ranks note a million collectives.
    """
    files = {
        record.id: found
        for record in run.manifest.passes
        if record.mode != Mode.THROUGHPUT and (found := _files_of(run.folder, record))
    }
    if not files or RANK_COLLECTIVES.name in run.frames:
        return run
    load = functools.partial(_cached, run, files)
    return dataclasses.replace(
        run, frames=LazyFrames(run.frames, {RANK_COLLECTIVES.name: load}, {})
    )


def _files_of(folder: Path, record: PassRecord) -> dict[int, Path]:
    """The file of each rank that wrote one."""
    home = RunPaths(folder).of_pass(record.id).flight_folder
    paths = {rank: home / f"rank-{rank}.json" for rank in range(record.size)}
    return {rank: path for rank, path in paths.items() if path.is_file()} if home.is_dir() else {}


def _cached(run: Run, files: Mapping[str, Mapping[int, Path]]) -> pd.DataFrame:
    paths = [checked_inside(run.folder, path) for own in files.values() for path in own.values()]
    if sum(path.stat().st_size for path in paths) < parquet_cache.CACHE_FROM_BYTES:
        return _calls(run, files)
    clocks = [
        path for pass_id in files for path in RunPaths(run.folder).of_pass(pass_id).recorder_files()
    ]
    build = functools.partial(_calls, run, files)
    return parquet_cache.cached_frames(
        (RANK_COLLECTIVES,), [*paths, *clocks], lambda: {RANK_COLLECTIVES.name: build()}
    )[RANK_COLLECTIVES.name]


def _calls(run: Run, files: Mapping[str, Mapping[int, Path]]) -> pd.DataFrame:
    blocks = [
        block
        for record in run.manifest.passes
        if record.id in files
        for block in _of_pass(run, record, files[record.id])
    ]
    return stacked(RANK_COLLECTIVES, blocks)


def _of_pass(run: Run, record: PassRecord, files: Mapping[int, Path]) -> list[Block]:
    """The calls of each rank of one launch, matched, on rank 0's clock."""
    paths = RunPaths(run.folder).of_pass(record.id)
    dumps = {rank: read_dump_columns(path) for rank, path in files.items()}
    label_of = group_labels(dump.groups for dump in dumps.values())
    labels = {
        rank: [
            label_of.get((kind.group, dump.groups.get(kind.group, ())), kind.group)
            for kind in dump.kinds
        ]
        for rank, dump in dumps.items()
    }
    ids = _matched(dumps, labels)
    steps = run.table(STEPS.name)
    steps = steps[(steps["pass_id"] == record.id).to_numpy(dtype=bool)]
    rank_0 = _clock_of(paths, 0)
    blocks: list[Block] = []
    for rank, dump in dumps.items():
        placed = _placed(files[rank], dump, _clock_of(paths, rank), rank_0)
        block = dict(_block(record, rank, dump, ids[rank], placed, steps))
        blocks.append(block | {"group": _per_call(dump, labels[rank])})
    return blocks


def _clock_of(paths: PassPaths, rank: int) -> RecorderFile | None:
    path = paths.recorder_file(rank)
    return read_recorder_clock(path) if path.is_file() else None


def _placed(
    path: Path, dump: DumpColumns, file: RecorderFile | None, rank_0: RecorderFile | None
) -> tuple[Int64s, Alignment]:
    """Arrivals on rank 0's clock, as the recording of the same rank is put on it."""
    if dump.to_monotonic_ns is None or file is None:
        raise UnreadableInputError(
            f"{path} cannot be put on the clock of its run: "
            f"{'it states no clock' if file is not None else 'the rank has no recorder file'}.",
            hint=f"Remove it, or read it alone: hvdprof analyze {path.parent}",
        )
    alignment = alignment_of(file, rank_0)
    return alignment.aligned_ns(dump.created_ns + dump.to_monotonic_ns), alignment


def _matched(
    dumps: Mapping[int, DumpColumns], labels: Mapping[int, Sequence[str]]
) -> dict[int, Int64s]:
    """The number of the collective of each call by rank; calls of one number and kind match."""
    code_of: dict[tuple[object, ...], int] = {}
    pieces = []
    for rank, dump in dumps.items():
        codes = np.array(
            [
                -1
                if kind.collective in POINT_TO_POINT
                else code_of.setdefault(
                    (label, kind.collective, kind.dtype, kind.size_bytes), len(code_of)
                )
                for kind, label in zip(dump.kinds, labels[rank], strict=True)
            ],
            dtype=np.int64,
        )
        pieces.append(pd.DataFrame({"rank": rank, "code": codes[dump.kind], "seq": dump.seq}))
    table = pd.concat(pieces, ignore_index=True)
    # The calls of a coalesced group share a number.
    key = ["code", "seq"]
    table["turn"] = table.groupby(["rank", *key], sort=False).cumcount()
    groups = table.groupby([*key, "turn"], sort=False)
    is_shared = (groups["rank"].transform("size") > 1) & (table["code"] >= 0)
    found = np.full(len(table), NO_MATCH, dtype=np.int64)
    found[is_shared] = pd.factorize(groups.ngroup()[is_shared])[0]
    edges = np.cumsum([0, *(len(dump.seq) for dump in dumps.values())])
    return {rank: found[edges[n] : edges[n + 1]] for n, rank in enumerate(dumps)}


def _size_of(record: PassRecord, dump: DumpColumns, call: DumpCall) -> int | None:
    return record.size if call.is_world else len(dump.groups.get(call.group, ())) or None


def _per_call(dump: DumpColumns, values: Sequence[str]) -> pd.Categorical:
    named = names(values)
    return pd.Categorical.from_codes(named.codes[dump.kind], dtype=named.dtype)


def _block(
    record: PassRecord,
    rank: int,
    dump: DumpColumns,
    ids: Int64s,
    placed: tuple[Int64s, Alignment],
    steps: pd.DataFrame,
) -> Block:
    arrival, alignment = placed
    kinds = dump.kinds

    def numbers(values: list[int | None]) -> "pd.api.extensions.ExtensionArray":
        return pd.array(values, dtype="Int64").take(dump.kind)

    nothing = pd.array([None] * len(arrival), dtype="Int64")
    segment, step = _steps_of(record, rank, arrival, steps)
    return {
        "pass_id": record.id,
        "segment": segment,
        "source": SOURCE,
        "rank": np.full(len(arrival), rank),
        "step": step,
        "group_size": numbers([_size_of(record, dump, kind) for kind in kinds]),
        "seq": pd.array(dump.seq, dtype="Int64"),
        "match_id": ids,
        "collective": _per_call(dump, [kind.collective for kind in kinds]),
        "name": _per_call(dump, [kind.name for kind in kinds]),
        "dtype": _per_call(dump, [kind.dtype for kind in kinds]),
        "size_bytes": numbers([kind.size_bytes for kind in kinds]),
        "submitted_ns": pd.array(arrival, dtype="Int64"),
        "start_ns": nothing,
        "arrival_ns": arrival,
        "end_ns": nothing,
        "exposed_ns": nothing,
        "state": _per_call(
            dump, ["" if kind.name.startswith(ARRIVALS_ONLY) else kind.state for kind in kinds]
        ),
        "clock_error_ns": alignment.errors_ns(arrival - alignment.offset_ns),
    }


def _steps_of(
    record: PassRecord, rank: int, arrival: Int64s, steps: pd.DataFrame
) -> tuple[str, Int64s]:
    """The segment that was recorded, and the step of the rank in which each call was submitted."""
    own = steps[(steps["rank"] == rank).to_numpy()].sort_values("start_ns")
    segment = record.segments[0].segment.id
    if own.empty:
        return segment, np.full(len(arrival), -1)
    start = own["start_ns"].to_numpy()
    place = np.searchsorted(start, arrival, side="right") - 1
    inside = (place >= 0) & (arrival < (start + own["dur_ns"].to_numpy())[place])
    return segment, np.where(inside, own["step"].to_numpy()[place], -1)


@dataclass(frozen=True, slots=True)
class Recordings:
    """What files of other recorders hold together, and why nothing of a file is used.

    ``run`` is None without a file.
    """

    run: Run | None = None
    left_out: Mapping[Path, str] = field(default_factory=dict)


def read_recordings(paths: Sequence[Path]) -> Recordings:
    """Files of other recorders; those that hold nothing usable are left out."""
    if not paths:
        return Recordings()
    found = [recognise(path) for path in paths]
    try:
        run = load_files(Found(found), paths[0])
    except UnreadableInputError as error:
        return Recordings(None, dict.fromkeys(paths, error.message))
    rows = {str(row["file"]): row for row in run.table(FILES.name).to_dict("records")}
    left_out = {}
    for file in found:
        row = rows[file.name]
        if str(row["kind"]).startswith("NCCL log"):
            # Of a file with more than NCCL's lines, --nccl-log would drop the rest.
            is_output = "," in str(row["kind"])
            what = "the output of a job with NCCL's log in it" if is_output else "an NCCL log"
            use = "--stdout, which reads all of it" if is_output else "--nccl-log"
            left_out[file.path] = f"{file.name} is {what}: use {use}."
        elif not row["num_rows"]:
            why = "holds nothing of another recorder" if file.size_bytes else "is empty"
            left_out[file.path] = str(row["left_out"]) or f"{file.name} {why}; it is left out."
    return Recordings(run, left_out)


def with_recordings(run: Run) -> Run:
    """The run with the tables of the attached files of other recorders, which FILES lists.

    A file that cannot be read any more is noted.
    """
    attached = [
        attached_file
        for attached_file in attached_files(run.manifest)
        if attached_file.kind == AttachedKind.RECORDING
    ]
    if not attached:
        return run
    # Names in the run directory: the folders of this machine say nothing.
    for record in run.manifest.passes:
        show_as(RunPaths(run.folder).of_pass(record.id).recording_folder, _SHOWN_FOLDER)
    notes: list[Note] = []
    files = []
    for file in attached:
        path = run.folder / file.copy
        try:
            files.append(recognise(checked_inside(run.folder, path)))
        except UnreadableInputError as error:
            notes.append(Note(NoteCode.UNREADABLE, error.message))
        except OSError as error:
            notes.append(Note(NoteCode.UNREADABLE, str(error.strerror)).at(shown_name(path)))
    frames = dict(run.frames)
    if files:
        try:
            found = load_files(Found(files), files[0].path)
        except UnreadableInputError as error:
            notes.append(Note(NoteCode.UNREADABLE, error.message))
        else:
            notes += found.notes
            for name, frame in found.frames.items():
                own = [frames[name]] if name in frames else []
                frames[name] = below_each_other(declared_table(name), [*own, frame])
    return run.extended(frames, notes)
