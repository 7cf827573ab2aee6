"""The logs of the passes of a run: NCCL's, stalls, what a watcher saw, attached output of jobs."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from hvdprof.errors import HvdprofError
from hvdprof.ingest.rundir.stall_file import StallKey, read_stall_file
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.model.tables.finding_tables import WATCHED_EVENTS
from hvdprof.model.tables.log_tables import FILES
from hvdprof.plain_text import printable
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_files
from hvdprof.rundir.json_codec import JsonObject, read_lines
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.recording.stall_format import EventKind, EventState
from hvdprof.rundir.regular_file import checked_inside, show_as


def with_logs(run: Run) -> Run:
    """The run with what the logs of its passes say, one NCCL job a pass.

    Output is read where it was attached; of a run that hvdprof measured, the manifest holds what
    its output says.
    """
    read = RunBuilder()
    files: dict[str, dict[str, object]] = {}
    printed_nccl = [
        path for file in attached_files(run.manifest) for path in _output(run, file, read, files)
    ]
    for record in run.manifest.passes:
        _add_nccl(run, record.id, [*_nccl_logs(run, record.id, read), *printed_nccl], read)
        _add_events(run, record.id, read, _add_stalls(run, record.id, read))
    if files:
        read.add_tables([(FILES.name, FILES.frame(_rows_of(files, read)))])
    if not (read.nccl or read.notes or read.frames):
        return run
    found = read.run(run.folder, run.manifest)
    return dataclasses.replace(run.extended(found.frames, found.notes), nccl=found.nccl)


def _nccl_logs(run: Run, pass_id: str, read: RunBuilder) -> list[Path]:
    """NCCL's logs of a pass that are not empty; what is no regular file of the run is noted."""
    folder = RunPaths(run.folder).of_pass(pass_id).nccl_folder
    paths = []
    for path in sorted(folder.glob("*")):
        try:
            if checked_inside(run.folder, path).is_file() and path.stat().st_size:
                paths.append(path)
        except OSError as error:
            clause = Note(NoteCode.UNREADABLE, f"NCCL log: {error.strerror or error}")
            read.notes.append(clause.at(pass_id, pass_id))
    return paths


def _add_nccl(run: Run, pass_id: str, paths: Sequence[Path], read: RunBuilder) -> None:
    if not paths:
        return
    from hvdprof.ingest.nccl.reader import read_nccl_logs

    try:
        recording = read_nccl_logs(paths)
    except HvdprofError as error:
        read.notes.append(Note(NoteCode.UNREADABLE, error.message).at(pass_id, pass_id))
        return
    of_hvdprof = not attached_files(run.manifest)
    read.nccl.append(dataclasses.replace(recording, of_hvdprof=of_hvdprof))
    read.notes += [note.at(f"{pass_id}: NCCL", pass_id) for note in recording.notes]


def _add_stalls(run: Run, pass_id: str, read: RunBuilder) -> Mapping[StallKey, int]:
    """Add the stalls of a pass; when each was over."""
    path = RunPaths(run.folder).of_pass(pass_id).stalls
    try:
        checked_inside(run.folder, path)
        found = read_stall_file(path, path.relative_to(run.folder).as_posix())
    except FileNotFoundError:
        return {}
    except OSError as error:
        clause = Note(NoteCode.UNREADABLE, f"{path.name}: {error.strerror}")
        read.notes.append(clause.at(pass_id, pass_id))
        return {}
    read.add_tables(found.tables.items())
    read.notes += [clause.at(pass_id, pass_id) for clause in found.clauses]
    return found.over_ns


def _add_events(
    run: Run, pass_id: str, read: RunBuilder, stalls_over_ns: Mapping[StallKey, int]
) -> None:
    path = RunPaths(run.folder).of_pass(pass_id).events
    try:
        checked_inside(run.folder, path)
        events, clauses = read_events(path, pass_id, stalls_over_ns)
    except FileNotFoundError:
        return
    except OSError as error:
        clause = Note(NoteCode.UNREADABLE, f"{path.name}: {error.strerror}")
        read.notes.append(clause.at(pass_id, pass_id))
        return
    read.add_tables([(WATCHED_EVENTS.name, events)])
    read.notes += [clause.at(pass_id, pass_id) for clause in clauses]


def _rows_of(files: dict[str, dict[str, object]], read: RunBuilder) -> list[dict[str, object]]:
    """The rows of FILES of attached logs, those with NCCL's lines as what they are, too."""
    for recording in read.nccl:
        for name, count in (
            recording.line_kinds.groupby("file", observed=True)["count"].sum().items()
        ):
            if (row := files.get(str(name))) is not None:
                more = f", {row['kind']}" if row["kind"] else ""
                row |= {
                    "kind": f"NCCL log{more}",
                    "num_rows": int(str(row["num_rows"])) + int(count),
                }
    return [row | {"kind": row["kind"] or "text"} for row in files.values()]


def _output(
    run: Run, file: AttachedFile, read: RunBuilder, files: dict[str, dict[str, object]]
) -> list[Path]:
    """Add what an attached output says; its path again where NCCL's lines are among it.

    NCCL logs that are not in files of their own hold what the job printed, too.
    """
    if file.kind not in (AttachedKind.OUTPUT, AttachedKind.NCCL_LOG):
        return []
    from hvdprof.ingest.logs.printed_file import read_printed_file

    path = run.folder / file.copy
    # Its name in the run directory: NCCL's tables and those of the output name it alike.
    show_as(path, file.copy)
    try:
        printed = read_printed_file(checked_inside(run.folder, path))
    except HvdprofError as error:
        read.notes.append(Note(NoteCode.UNREADABLE, error.message).at(file.copy))
        return []
    except OSError as error:
        read.notes.append(Note(NoteCode.UNREADABLE, str(error.strerror)).at(file.copy))
        return []
    read.notes += [clause.at(file.copy) for clause in printed.notes]
    num_rows = read.add_tables((name, _named(frame, file)) for name, frame in printed.tables)
    files[file.copy] = {
        "file": file.copy,
        "kind": ", ".join(printed.kinds),
        "size_bytes": path.stat().st_size,
        "num_lines": printed.num_lines,
        "num_rows": num_rows,
        "left_out": "",
    }
    return [path] if printed.nccl_processes and file.kind == AttachedKind.OUTPUT else []


def _named(frame: pd.DataFrame, file: AttachedFile) -> pd.DataFrame:
    """The frame with the file by its name in the run, and the rank in that name."""
    named = frame.copy()
    if "file" in named:
        named["file"] = pd.Categorical([file.copy] * len(named))
    if file.rank is not None and "rank" in named:
        named["rank"] = named["rank"].fillna(file.rank)
    return named


def read_events(
    path: Path, pass_id: str, stalls_over_ns: Mapping[StallKey, int]
) -> tuple[pd.DataFrame, list[Note]]:
    """WATCHED_EVENTS of a pass, and a clause for each line that is damaged.

    Args:
        path: The file.
        pass_id: Of the pass.
        stalls_over_ns: ``StallFile.over_ns``: when a hang was over that no watcher saw end.

    Raises:
        OSError: The file cannot be read.
    """
    begun: dict[int, JsonObject] = {}

    def take(_: int, line: JsonObject) -> None:
        number, state = whole(line["number"]), EventState(line["state"])
        if state == EventState.OVER:
            begun[number] |= {"over_ns": whole(line["since_ns"]), "last_step": whole(line["step"])}
            return
        if state in (EventState.SAMPLED, EventState.PROFILED):
            begun[number] |= _answered(begun[number], line)
            return
        if state == EventState.EXPLAINED:
            begun[number]["text"] += f" {printable(str(line['text']))}"
            return
        ranks = [whole(rank) for rank in line["ranks"]]
        texts = ("segment", "host", "phase", "place", "text")
        begun[number] = {
            "pass_id": pass_id,
            "number": number,
            "event": str(EventKind(line["event"])),
            "rank": ranks[0] if ranks else -1,
            "first_step": whole(line["step"]),
            "last_step": whole(line["step"]) if state == EventState.ONCE else -1,
            "since_ns": whole(line["since_ns"]),
            "seen_ns": whole(line["time_ns"]),
            "over_ns": whole(line["time_ns"]) if state == EventState.ONCE else -1,
            "cost_ns": whole(line["cost_ns"]),
            "step_ns": whole(line["step_ns"]),
            **{name: printable(str(line[name])) for name in texts},
            "share": float("nan"),
            "files": [],
        }

    clauses = read_lines(path, take)
    rows = Rows(WATCHED_EVENTS)
    for number in sorted(begun):
        row = begun[number]
        if row["event"] == EventKind.HANG and row["over_ns"] == -1:
            key = str(row["segment"]), whole(row["first_step"]), whole(row["rank"])
            if key in stalls_over_ns:
                row |= {"over_ns": stalls_over_ns[key], "last_step": row["first_step"]}
        rows.add(**row | {"files": ", ".join(row["files"])})
    return rows.frame(), [Note(NoteCode.DAMAGED, f"{path.name}: {clause}") for clause in clauses]


def _answered(row: JsonObject, line: JsonObject) -> JsonObject:
    """What the ranks of an event have answered, with what they had answered before."""
    new = [printable(str(name)) for name in line["files"]]
    answered: JsonObject = {"files": list(dict.fromkeys([*row["files"], *new]))}
    if share := float(line["share"]):
        answered |= {"share": share, "place": printable(str(line["place"]))}
    return answered
