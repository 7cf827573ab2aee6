"""Small files of a run directory to tables: turns, network, DDP's arguments, forecasts."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.ingest.text.whole_number import bounded, whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.results.forecast import Forecast, Limits, Missing, Question, StoredForecast
from hvdprof.model.run import Run
from hvdprof.model.schema import Table
from hvdprof.model.tables.forecast_tables import (
    FORECAST,
    FORECAST_CAUSES,
    FORECAST_MEASURE,
    FORECAST_WIDTHS,
)
from hvdprof.model.tables.run_tables import TURNS
from hvdprof.model.tables.sample_tables import NET_TRANSFERS
from hvdprof.rundir.attached import NetRecording
from hvdprof.rundir.json_codec import DAMAGE, JsonObject, decode, parse_json, read_json, read_lines
from hvdprof.rundir.launch_format import DdpFacts
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import NotRegularFileError, checked_inside, read_regular

T = typing.TypeVar("T")


def with_forecasts(run: Run) -> Run:
    """The run with its forecasts, oldest first; a damaged file becomes a note."""
    folder = RunPaths(run.folder).forecasts
    if not folder.is_dir():
        return run
    stored: list[StoredForecast] = []
    notes: list[Note] = []
    for path in sorted(folder.glob("*.json")):
        try:
            stored.append(read_forecast(checked_inside(run.folder, path)))
        except (OSError, *DAMAGE) as error:
            text = f"The forecast {path.name} cannot be read: {error}."
            notes.append(Note(NoteCode.UNREADABLE, text))
    return dataclasses.replace(run.extended({}, notes), forecasts=tuple(stored))


def read_forecast(path: Path) -> StoredForecast:
    """The forecast that a file holds.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged, or lacks a field or a column.
        KeyError: A key is missing.
    """
    content: JsonObject = parse_json(read_regular(path))
    return StoredForecast(path.stem, str(content["created_at"]), _forecast(content))


def _forecast(content: JsonObject) -> Forecast:
    return Forecast(
        question=decode(Question, content["question"], "question"),
        baseline=str(content["baseline"]),
        baseline_samples_per_s=_number(content["baseline_samples_per_s"]),
        measured_np=tuple(int(size) for size in content["measured_np"]),
        excluded_np=tuple(int(size) for size in content["excluded_np"]),
        algorithm=str(content["algorithm"]),
        algorithm_probability=_number(content["algorithm_probability"]),
        scenarios=tuple(str(scenario) for scenario in content["scenarios"]),
        rows=_table(FORECAST, content),
        causes=_table(FORECAST_CAUSES, content),
        widths=_table(FORECAST_WIDTHS, content),
        measurements=_table(FORECAST_MEASURE, content),
        limits=tuple(_record(Limits, limit) for limit in content["limits"]),
        assumptions=tuple(str(assumption) for assumption in content["assumptions"]),
        missing=tuple(_record(Missing, gap) for gap in content["missing"]),
        caveats=tuple(
            Note(**(note | {"code": NoteCode(note["code"])})) for note in content.get("caveats", ())
        ),
        tail_index=_number(content["tail_index"]),
    )


def _table(table: Table, content: JsonObject) -> pd.DataFrame:
    """The rows with the declared columns; columns of a newer version are left out."""
    rows = pd.DataFrame(content[table.name])
    return table.empty() if rows.empty else table.frame(rows[table.column_names])


def _record(kind: type[T], values: Mapping[str, object]) -> T:
    """A record whose missing numbers were written as null."""
    hints = typing.get_type_hints(kind)
    known = {
        name: math.nan if value is None and hints.get(name) is float else value
        for name, value in values.items()
    }
    return decode(kind, known, kind.__name__)


def _number(value: object) -> float:
    return float(str(value)) if value is not None else math.nan


ALL_HOSTS = "all"
_WHERE = "The measurement of the network"


def with_network(run: Run) -> Run:
    """The run with NET_TRANSFERS, where its network was measured; a damaged file is a note."""
    try:
        recording = NetRecording.read(run.folder)
        if recording is None:
            return run
        frame, notes = net_transfers(recording)
    except UnreadableInputError as error:
        frame, notes = NET_TRANSFERS.empty(), [Note(NoteCode.UNREADABLE, error.message)]
    return run.extended({NET_TRANSFERS.name: frame}, notes)


def net_transfers(recording: NetRecording) -> tuple[pd.DataFrame, list[Note]]:
    """NET_TRANSFERS of a recording, and a sentence for what is damaged or was not measured."""
    rows: list[dict[str, object]] = []
    notes = [Note(NoteCode.DAMAGED, clause).at(_WHERE) for clause in recording.problems]
    names = _distinct(recording.hosts)
    for number, record in enumerate(recording.records, start=1):
        try:
            is_pair = "from" in record
            ends = [names[record[key]] if is_pair else ALL_HOSTS for key in ("from", "to")]
            if "problem" in record:
                text = f"The network from {ends[0]} to {ends[1]} was not measured"
                why = f"({record['what']}): {record['problem']}."
                notes.append(Note(NoteCode.NET_UNMEASURED, f"{text} {why}"))
                continue
            same = {
                "method": str(record["what"]),
                "from_host": ends[0],
                "to_host": ends[1],
                "np": 2 if is_pair else len(names),
                "size_bytes": whole(record["size_bytes"]),
            }
            times = enumerate(map(whole, record["times_ns"]))
            rows += [same | {"round": turn, "time_ns": time_ns} for turn, time_ns in times]
        except DAMAGE as error:
            clause = f"record {number} is damaged: {type(error).__name__}"
            notes.append(Note(NoteCode.DAMAGED, clause).at(_WHERE))
    return NET_TRANSFERS.frame(rows), notes


def _distinct(hosts: list[str]) -> list[str]:
    """The names of hosts, with the rank after a name that two of them have."""
    return [f"{name}#{rank}" if hosts.count(name) > 1 else name for rank, name in enumerate(hosts)]


def with_ddp_facts(run: Run) -> Run:
    """The run with what is known of DDP on the most ranks; a damaged file becomes a note.

    Of several launches it is the one with a trace, which also measures allreduces.
    """
    passes = run.manifest.passes
    paths = RunPaths(run.folder)
    most = max((record.size for record in passes), default=0)
    found: list[DdpFacts] = []
    notes: list[Note] = []
    for record in passes:
        path = paths.of_pass(record.id).ddp_facts
        if record.size != most or not path.exists():
            continue
        try:
            found.append(read_json(DdpFacts, checked_inside(run.folder, path)))
        except (UnreadableInputError, NotRegularFileError) as error:
            text = f"What {record.id} noted of DDP cannot be read: {error}"
            notes.append(Note(NoteCode.UNREADABLE, text))
    if not found and not notes:
        return run
    facts = max(found, key=lambda noted: len(noted.allreduces), default=None)
    return dataclasses.replace(run.extended({}, notes), ddp=facts)


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
