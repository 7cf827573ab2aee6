import dataclasses
import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import load_run
from hvdprof.ingest.rundir.run_files import net_transfers, read_turn_file, with_network
from hvdprof.model.notes import Note, NoteCode, texts
from hvdprof.model.results.forecast import Forecast
from hvdprof.model.run import Run
from hvdprof.report.sections.forecast_page import write_forecast
from hvdprof.rundir.json_codec import to_text
from hvdprof.rundir.launch_format import DdpFacts, TurnLine
from hvdprof.rundir.layout import RunPaths
from tests.builders.finished_forecast import finished_forecast
from tests.builders.net_recording import SIZES, net_recording
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

CREATED = "2026-11-22T18:00:00+00:00"


def stored(folder: Path, forecast: Forecast, name: str = "20261122-180000") -> Path:
    path = RunPaths(folder).forecasts / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        write_forecast(forecast, file, created_at=CREATED, version="0.0.0")
    return path


def run_folder(folder: Path) -> Path:
    return write_run(folder, [PassSpec(size=1, segments=[SegmentSpec(parts_ms=typical_parts(10))])])


@pytest.mark.heavy
def test_a_stored_forecast_reads_as_it_was_written(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    question = dataclasses.replace(
        finished_forecast().question, settings={"batch": "64"}, past_errors=((2.0, 0.03),)
    )
    written = dataclasses.replace(
        finished_forecast(("1Gbit", "25Gbit"), losses=(0.1, 0.05), is_open=True),
        question=question,
        caveats=(Note(NoteCode.OTHER_LOAD, "Others kept cores busy.", number=3),),
    )
    stored(folder, written)

    (found,) = load_run(folder).forecasts

    assert (found.name, found.created_at) == ("20261122-180000", CREATED)
    for one in dataclasses.fields(Forecast):
        before, after = getattr(written, one.name), getattr(found.forecast, one.name)
        if isinstance(before, pd.DataFrame):
            pd.testing.assert_frame_equal(before, after)
        else:
            assert before == after, one.name


@pytest.mark.heavy
def test_forecasts_are_in_the_order_of_their_time(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    for name in ("20261122-190000", "20261122-180000"):
        stored(folder, finished_forecast(), name)

    assert [one.name for one in load_run(folder).forecasts] == [
        "20261122-180000",
        "20261122-190000",
    ]


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"created_at": "x", "question": 3}'])
def test_a_damaged_forecast_is_a_note_and_the_others_are_read(tmp_path: Path, damage: str) -> None:
    folder = run_folder(tmp_path / "run")
    stored(folder, finished_forecast(), "20261122-180000")
    (RunPaths(folder).forecasts / "20261122-190000.json").write_text(damage)

    run = load_run(folder)

    assert len(run.forecasts) == 1
    (note,) = [note for note in texts(run.notes) if "forecast" in note]
    assert note.startswith("The forecast 20261122-190000.json cannot be read: ")


def test_a_run_without_forecasts_has_none(tmp_path: Path) -> None:
    assert load_run(run_folder(tmp_path / "run")).forecasts == ()


def test_a_row_for_every_message() -> None:
    frame, notes = net_transfers(net_recording())
    assert notes == []
    assert len(frame) == 3 * len(SIZES) * 9
    links = frame.drop_duplicates(["method", "from_host", "to_host"])
    assert links[["method", "from_host", "to_host", "np"]].to_numpy().tolist() == [
        ["tcp", "h2", "h1", 2],
        ["broadcast", "h1", "h2", 2],
        ["allreduce", "all", "all", 2],
    ]
    assert frame["time_ns"].iloc[4] == 50_000 + round(1024 * 1e9 / 25e6)


def test_a_pair_that_could_not_be_measured_is_reported() -> None:
    problem = {"what": "tcp", "from": 1, "to": 0, "problem": "no answer on port 7"}
    frame, notes = net_transfers(net_recording(records=[problem]))
    assert frame.empty
    assert list(texts(notes)) == [
        "The network from h2 to h1 was not measured (tcp): no answer on port 7."
    ]


def test_hosts_of_one_name_are_distinguished() -> None:
    frame, _ = net_transfers(net_recording(hosts=["node", "node"]))
    assert set(frame["from_host"]) == {"node#0", "node#1", "all"}


def _empty_run(folder: Path) -> Run:
    return load_run(write_run(folder, []))


@pytest.mark.parametrize(
    "record",
    [
        {"what": "tcp"},
        {"what": "tcp", "from": 7, "to": 0},
        {"what": "tcp", "from": "x", "to": 0},
        {"what": "allreduce", "size_bytes": 2**63, "times_ns": [5]},
        {},
    ],
)
def test_a_record_that_makes_no_sense_is_a_note_and_the_others_are_used(
    record: dict[str, object],
) -> None:
    frame, notes = net_transfers(net_recording(records=[record, *net_recording().records]))
    assert len(frame) == 3 * len(SIZES) * 9
    (note,) = texts(notes)
    assert note.startswith("The measurement of the network: record 1 is damaged: ")


@pytest.mark.parametrize("damage", [b"\xff", b'{"what": 1e999}', b"[1]", b'{"what": "x'])
def test_a_damaged_line_of_the_file_costs_that_line(tmp_path: Path, damage: bytes) -> None:
    net_recording().write(tmp_path)
    path = RunPaths(tmp_path).net
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:3], damage, *lines[3:]]))
    read = _empty_run(tmp_path)
    assert len(read.table("net_transfers")) == 3 * len(SIZES) * 9
    (note,) = texts(read.notes)
    assert note.startswith("The measurement of the network: ")
    assert "is damaged" in note


def test_a_run_with_and_without_a_measurement(tmp_path: Path) -> None:
    run = _empty_run(tmp_path)
    assert with_network(run) is run
    net_recording().write(tmp_path)
    read = with_network(run)
    assert isinstance(read, Run)
    assert len(read.table("net_transfers")) == 3 * len(SIZES) * 9


def test_a_damaged_measurement_is_a_note_and_the_run_loads(tmp_path: Path) -> None:
    RunPaths(tmp_path).net.write_text("{")
    read = _empty_run(tmp_path)
    assert len(read.notes) == 1
    assert "is damaged" in texts(read.notes)[0]
    assert read.table("notes")["note"].tolist() == list(texts(read.notes))


PLAIN = DdpFacts(gradient_bytes=8, bucket_cap_mb=0.5)
TRACED = replace(PLAIN, allreduces=[(4, 100)])


def ddp_run(folder, *passes):
    """A run directory with these passes: size, and what rank 0 noted of DDP if anything."""
    specs = [PassSpec(size=size, repeat=number) for number, (size, _) in enumerate(passes, 1)]
    write_run(folder, specs)
    for record, (_, facts) in zip(load_run(folder).manifest.passes, passes, strict=True):
        if facts is not None:
            RunPaths(folder).of_pass(record.id).ddp_facts.write_text(to_text(facts))
    return folder


@pytest.mark.heavy
def test_what_ddp_does_is_read_from_the_launch_that_measured_allreduces(tmp_path):
    of_one = replace(PLAIN, allreduces=[(4, 100), (4, 100)])

    run = load_run(ddp_run(tmp_path, (1, of_one), (2, PLAIN), (2, TRACED), (2, None)))

    assert run.ddp == TRACED


def test_a_run_without_ddp_has_no_facts(tmp_path):
    run = load_run(ddp_run(tmp_path, (2, None)))

    assert run.ddp is None
    assert run.notes == ()


@pytest.mark.heavy
def test_damaged_facts_are_a_note(tmp_path):
    folder = ddp_run(tmp_path, (2, PLAIN))
    pass_id = load_run(folder).manifest.passes[0].id
    RunPaths(folder).of_pass(pass_id).ddp_facts.write_text("{")

    run = load_run(folder)

    assert run.ddp is None
    assert texts(run.notes)[0].startswith(f"What {pass_id} noted of DDP cannot be read: ")
    assert "ddp.json is damaged" in texts(run.notes)[0]


LINE: TurnLine = {
    "segment": "mnist",
    "round": 2,
    "first_step": 28,
    "num_steps": 10,
    "monotonic_ns": 5,
    "dur_ns": 1_000_000_000,
    "other_cores": 0.25,
    "steal_share": None,
}


def test_turns_of_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + '{"segment": "mnist", "rou\n{"segment": 1}\n')
    turns, clauses = read_turn_file(path, "03-np2")
    (row,) = turns.to_dict("records")
    assert (row["pass_id"], row["segment"], row["round"]) == ("03-np2", "mnist", 2)
    assert (row["first_step"], row["num_steps"], row["other_cores"]) == (28, 10, 0.25)
    assert math.isnan(row["steal_share"])
    assert clauses == [
        "line 2 is damaged: JSONDecodeError",
        "line 3 is damaged: KeyError",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xfe",
        json.dumps(LINE).replace("0.25", "1e999").encode(),
        json.dumps(LINE).replace("1000000000", "1e300").encode(),
        json.dumps(LINE).replace("1000000000", "9223372036854775808").encode(),
        json.dumps(LINE | {"other_cores": "many"}).encode(),
        json.dumps(LINE | {"round": True}).encode(),
    ],
)
def test_a_damaged_line_costs_its_turn_alone(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "turns.jsonl"
    whole = json.dumps(LINE).encode()
    path.write_bytes(b"\n".join([whole, damage, whole, b""]))
    turns, clauses = read_turn_file(path, "03-np2")
    assert len(turns) == 2
    assert len(clauses) == 1
    assert clauses[0].startswith("line 2 is damaged: ")
