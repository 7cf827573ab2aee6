"""The turns of a resident launch to a table: ``turns.jsonl`` of the pass."""

import dataclasses
from pathlib import Path

import pandas as pd

from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.model.run import Run
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.rundir.json_text import parse_json
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import checked_inside, read_regular

_NAN = float("nan")


def with_turns(run: Run) -> Run:
    """The run with the turns of its passes; the same run where no launches took turns."""
    read = RunBuilder()
    for record in run.manifest.passes:
        path = RunPaths(run.folder).of_pass(record.id).turns
        try:
            turns, clauses = read_turn_file(checked_inside(run.folder, path), record.id)
        except FileNotFoundError:
            continue
        except OSError as error:
            read.notes.append(f"{record.id}: {path.name}: {error.strerror}.")
            continue
        read.add_tables([(TURNS.name, turns)])
        read.notes.extend(f"{record.id}: {path.name}: {clause}." for clause in clauses)
    if not (read.notes or read.frames):
        return run
    own = read.run(run.folder, run.manifest)
    notes = (*run.notes, *own.notes)
    frames = {**run.frames, **own.frames, NOTES.name: NOTES.frame({"note": notes})}
    return dataclasses.replace(run, notes=notes, frames=frames)


def read_turn_file(path: Path, pass_id: str) -> tuple[pd.DataFrame, list[str]]:
    """TURNS of a pass, and a clause for each damaged line.

    Raises:
        OSError: It cannot be read.
    """
    turns, clauses = Rows(TURNS), []
    for number, text in enumerate(read_regular(path).splitlines(), start=1):
        try:
            line = parse_json(text)
            turns.add(
                pass_id=pass_id,
                segment=str(line["segment"]),
                round=int(line["round"]),
                first_step=int(line["first_step"]),
                num_steps=int(line["num_steps"]),
                dur_ns=int(line["dur_ns"]),
                other_cores=_number(line["other_cores"]),
                steal_share=_number(line["steal_share"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            clauses.append(f"line {number} is damaged: {type(error).__name__}")
    return turns.frame(), clauses


def _number(value: float | None) -> float:
    return _NAN if value is None else float(value)
