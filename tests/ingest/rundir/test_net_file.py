from pathlib import Path

import pytest

from hvdprof.api import load_run
from hvdprof.ingest.rundir.net_file import net_transfers, with_network
from hvdprof.model.notes import texts
from hvdprof.model.run import Run
from hvdprof.rundir.layout import RunPaths
from tests.builders.net_recording import SIZES, net_recording
from tests.builders.run_directory import write_run


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
