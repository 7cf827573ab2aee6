"""Files of other recorders in a run directory: Flight Recorder dumps, Nsight exports, their logs.

Tested in ``tests/ingest/rundir/test_attached_recordings.py``.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load_files import load_files
from hvdprof.ingest.recognise import Found, recognise
from hvdprof.ingest.tables.run_builder import below_each_other
from hvdprof.model.run import Run
from hvdprof.model.table_catalogue import declared_table
from hvdprof.model.tables.log_tables import FILES, NOTES
from hvdprof.rundir.attached import AttachedKind, attached_files
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import checked_inside
from hvdprof.rundir.shown_names import show_as, shown_name

_SHOWN_FOLDER = "recordings"


def read_recordings(paths: Sequence[Path]) -> Run | None:
    """What files of other recorders hold together; None without a file.

    Raises:
        UnreadableInputError: A file holds nothing usable, or belongs to another option.
    """
    if not paths:
        return None
    run = load_files(Found([recognise(path) for path in paths]), paths[0])
    for row in run.table(FILES.name).to_dict("records"):
        name = str(row["file"])
        if not row["num_rows"]:
            raise UnreadableInputError(
                str(row["left_out"]) or f"{name} holds nothing of another recorder.",
                hint=f"See what it holds: hvdprof analyze {name}",
            )
        if str(row["kind"]).startswith("NCCL log"):
            raise UnreadableInputError(
                f"{name} is an NCCL log, so --recording cannot take it.", hint="Use --nccl-log."
            )
    return run


def with_recordings(run: Run) -> Run:
    """The run with the tables of the attached files of other recorders, which FILES lists.

    A file that cannot be read any more is noted.
    """
    attached = [one for one in attached_files(run.manifest) if one.kind == AttachedKind.RECORDING]
    if not attached:
        return run
    # Names in the run directory: the folders of this machine say nothing.
    for record in run.manifest.passes:
        show_as(RunPaths(run.folder).of_pass(record.id).recording_folder, _SHOWN_FOLDER)
    notes: list[str] = []
    files = []
    for one in attached:
        path = run.folder / one.copy
        try:
            files.append(recognise(checked_inside(run.folder, path)))
        except UnreadableInputError as error:
            notes.append(error.message)
        except OSError as error:
            notes.append(f"{shown_name(path)}: {error.strerror}.")
    frames = dict(run.frames)
    if files:
        try:
            found = load_files(Found(files), files[0].path)
        except UnreadableInputError as error:
            notes.append(error.message)
        else:
            notes += found.notes
            for name, frame in found.frames.items():
                own = [frames[name]] if name in frames else []
                frames[name] = below_each_other(declared_table(name), [*own, frame])
    everything = (*run.notes, *notes)
    frames[NOTES.name] = NOTES.frame({"note": everything})
    return dataclasses.replace(run, frames=frames, notes=everything)
