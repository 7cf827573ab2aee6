"""Files of other recorders in a run directory: Flight Recorder dumps, Nsight exports, logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load_files import load_files
from hvdprof.ingest.recognise import Found, recognise
from hvdprof.ingest.tables.run_builder import below_each_other
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.model.table_catalogue import declared_table
from hvdprof.model.tables.log_tables import FILES
from hvdprof.rundir.attached import AttachedKind, attached_files
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import checked_inside, show_as, shown_name

_SHOWN_FOLDER = "recordings"


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
