import json
import math
from pathlib import Path

import pytest

from hvdprof.ingest.rundir.turn_file import read_turn_file
from hvdprof.rundir.launch_format import TurnLine

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
