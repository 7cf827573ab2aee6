"""The turns of a resident launch to a table: ``turns.jsonl`` of the pass."""

from pathlib import Path

import pandas as pd

from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.ingest.text.whole_number import bounded, whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.rundir.json_codec import JsonObject, read_lines
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import checked_inside


def with_turns(run: Run) -> Run:
    """The run with the turns of its passes; the same run where no launches took turns."""
    read = RunBuilder()
    for record in run.manifest.passes:
        path = RunPaths(run.folder).of_pass(record.id).turns
        where = f"{record.id}: {path.name}"
        try:
            turns, clauses = read_turn_file(checked_inside(run.folder, path), record.id)
        except FileNotFoundError:
            continue
        except OSError as error:
            read.notes.append(Note(NoteCode.UNREADABLE, str(error.strerror)).at(where, record.id))
            continue
        read.add_tables([(TURNS.name, turns)])
        read.notes += [Note(NoteCode.DAMAGED, clause).at(where, record.id) for clause in clauses]
    if not (read.notes or read.frames):
        return run
    own = read.run(run.folder, run.manifest)
    return run.extended(own.frames, own.notes)


def read_turn_file(path: Path, pass_id: str) -> tuple[pd.DataFrame, list[str]]:
    """TURNS of a pass, and a clause for each damaged line.

    Raises:
        OSError: It cannot be read.
    """
    turns = Rows(TURNS)

    def take(_: int, line: JsonObject) -> None:
        turns.add(
            pass_id=pass_id,
            segment=str(line["segment"]),
            **{name: whole(line[name]) for name in ("round", "first_step", "num_steps", "dur_ns")},
            **{name: bounded(line[name]) for name in ("other_cores", "steal_share")},
        )

    clauses = read_lines(path, take)
    return turns.frame(), clauses
