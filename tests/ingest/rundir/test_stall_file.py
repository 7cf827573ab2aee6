import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.ingest.rundir.stall_file import read_stall_file
from hvdprof.model.notes import texts
from hvdprof.rundir.layout import RunPaths
from tests.builders.run_directory import PassSpec, write_run

STALL: dict[str, Any] = {
    "kind": "stall",
    "time_ns": 1_795_000_000_000_000_000,
    "number": 0,
    "segment": "mnist-none-average",
    "step": 5,
    "waited_s": 60.5,
    "waiting": [0, 2],
    "late": [
        {
            "rank": 1,
            "state": "runs",
            "step": 5,
            "phase": "data",
            "tensors": ["a", "b"],
            "stack": ["/job/train.py:15 load", "/job/train.py:29 <module>"],
        }
    ],
}


@pytest.mark.heavy
def test_stalls_are_rows_notes_and_incidents(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [PassSpec(size=2)])
    (pass_id,) = (path.name for path in (run / "passes").iterdir())
    over = {"kind": "over", "number": 0, "lasted_s": 75.0}
    text = "\n".join(map(json.dumps, (STALL, over)))
    RunPaths(run).of_pass(pass_id).stalls.write_text(text + '\n{"kind": "st')
    loaded = load_run(run)
    stalls = loaded.table("stalls")
    assert stalls[["stalled_rank", "tensor", "waited_s"]].to_numpy().tolist() == [
        [1, "a", 60.5],
        [1, "b", 60.5],
    ]
    incidents = loaded.table("incidents")
    assert incidents[["kind", "failed_rank"]].to_numpy().tolist() == [["stall", 1]]
    assert list(incidents["message"]) == [
        "stall at step 5 of mnist-none-average: ranks 0 and 2 blocked for 75.0 s on stalled rank 1"
    ]
    place = incidents[["cause", "until_end", "hanging_rank", "hangs_at", "stack"]]
    assert place.to_numpy().tolist() == [
        [
            *("stalled-rank", False, 1, "train.py:15 (load, data phase)"),
            "rank 1 in data: /job/train.py:15 load",
        ]
    ]
    stall_notes = [note for note in texts(loaded.notes) if "stall" in note]
    assert stall_notes == [
        f"{pass_id}: stall at step 5 of mnist-none-average: ranks 0 and 2 blocked for 75.0 s on "
        "stalled rank 1.",
    ]
    assert any("line 3 is damaged" in note for note in texts(loaded.notes))
    assert any("stall at step 5" in warning for warning in analyze_run(loaded).warnings)


def test_a_stall_in_which_the_job_ended_says_so(tmp_path: Path) -> None:
    path = tmp_path / "stalls.jsonl"
    over = {"kind": "over", "number": 0, "lasted_s": 75.0, "at_end": True}
    path.write_text("\n".join(map(json.dumps, (STALL, over))))
    found = read_stall_file(path, "stalls.jsonl")
    (clause,) = texts(found.clauses)
    assert clause.endswith("blocked for 75.0 s on stalled rank 1 until the job ended")
    assert found.tables["incidents"]["until_end"].all()


def test_the_only_segment_of_a_script_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "stalls.jsonl"
    path.write_text(json.dumps(STALL | {"segment": "main"}))
    (clause,) = texts(read_stall_file(path, "stalls.jsonl").clauses)
    assert clause.startswith("stall at step 5: ranks 0 and 2 blocked for at least 60.5 s on ")


def test_ranks_with_fewer_batches_are_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "stalls.jsonl"
    unequal = {"ended": [1], "num_steps": 39, "waiting": [0, 2], "step": 40}
    path.write_text(json.dumps(STALL | {"unequal": unequal}))
    found = read_stall_file(path, "stalls.jsonl")
    assert found.tables["incidents"]["cause"].tolist() == ["unequal-batches"]
    assert list(texts(found.clauses)) == [
        "unequal numbers of batches per rank: rank 1 ended the training loop after 39 steps, "
        "ranks 0 and 2 blocked for at least 60.5 s in step 40"
    ]


def test_a_stack_in_a_library_names_the_line_of_the_script_too(tmp_path: Path) -> None:
    path = tmp_path / "stalls.jsonl"
    stack = ["/v/site-packages/torch/serialization.py:850 save", "/job/train.py:29 <module>"]
    # What a checkpoint calls, such as a file of the script, is no cause.
    stack.insert(0, "/job/remote_file.py:8 write")
    (late,) = STALL["late"]
    path.write_text(json.dumps(STALL | {"late": [late | {"stack": stack}]}))
    (row,) = read_stall_file(path, "stalls.jsonl").tables["incidents"].to_dict("records")
    assert row["stack"] == (
        "rank 1 in data: /v/site-packages/torch/serialization.py:850 save, "
        "called at /job/train.py:29 <module>"
    )
    assert row["hangs_at"] == "train.py:29 (save of serialization.py, data phase)"
    assert row["cause"] == "checkpoint"


def test_several_stalled_ranks_without_gradients_are_no_hung_collective(tmp_path: Path) -> None:
    path = tmp_path / "stalls.jsonl"
    late = [STALL["late"][0] | {"rank": rank, "tensors": [], "stack": []} for rank in (1, 3)]
    path.write_text(json.dumps(STALL | {"late": late}))
    (row,) = read_stall_file(path, "stalls.jsonl").tables["incidents"].to_dict("records")
    assert (row["cause"], row["hangs_at"], row["stack"]) == ("stalled-rank", "", "")


def test_a_stall_of_all_ranks_is_a_hung_collective(tmp_path: Path) -> None:
    path = tmp_path / "stalls.jsonl"
    path.write_text(json.dumps(STALL | {"late": []}))
    found = read_stall_file(path, "stalls.jsonl")
    assert found.tables["incidents"]["failed_rank"].isna().all()
    assert found.tables["incidents"]["cause"].tolist() == ["hung-collective"]
    assert found.tables["stalls"].empty
    assert list(texts(found.clauses)) == [
        "stall at step 5 of mnist-none-average: ranks 0 and 2 blocked for at least 60.5 s "
        "in a hung collective"
    ]


def test_ranks_in_different_collectives_are_each_named(tmp_path: Path) -> None:
    waits = [
        {"rank": 0, "step": 5, "collective": "allreduce loss", "place": "t.py:31", "tensors": []},
        {"rank": 1, "step": 5, "collective": "", "place": "", "tensors": []},
    ]
    path = tmp_path / "stalls.jsonl"
    path.write_text(json.dumps(STALL | {"late": [], "waiting": [0, 1], "waits": waits}))
    found = read_stall_file(path, "stalls.jsonl")
    assert found.tables["incidents"]["cause"].tolist() == ["mismatched-collectives"]
    (clause,) = texts(found.clauses)
    assert clause == (
        "stall at step 5 of mnist-none-average: ranks 0 and 1 blocked for at least 60.5 s in "
        "different collectives: rank 0 in allreduce loss at t.py:31, rank 1 in a collective"
    )


@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xfe",
        json.dumps(STALL | {"number": 1}).replace("60.5", "1e999").encode(),
        json.dumps(STALL | {"number": 2**63}).encode(),
        json.dumps(STALL | {"waiting": [1e300]}).encode(),
        json.dumps(STALL | {"waiting": ["x"]}).encode(),
        json.dumps(STALL | {"late": ["x"]}).encode(),
        json.dumps(STALL | {"late": [STALL["late"][0] | {"rank": 2**62 + 1}]}).encode(),
        b'{"kind": "over", "number": 0, "lasted_s": 1e999}',
    ],
)
def test_a_damaged_line_costs_its_stall_alone(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "stalls.jsonl"
    path.write_bytes(json.dumps(STALL).encode() + b"\n" + damage + b"\n")
    found = read_stall_file(path, "stalls.jsonl")
    assert len(found.tables["incidents"]) == 1
    assert len(found.tables["stalls"]) == 2
    (clause,) = [one for one in texts(found.clauses) if "damaged" in one]
    assert clause.startswith("line 2 is damaged: ")
