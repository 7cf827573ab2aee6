import json
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.process_stacks import ProcessStacks, read_stack_json
from tests.builders.printed import read_part
from tests.builders.rank_stacks import PLACES, faulthandler, py_spy, server_dump

COUNTERS = """\
=== Rank 0: http://node0:50000/handler/wait_counter_values? ===
{
  "pytorch.wait_counter.TCPStore__get": {
    "active_count": 0,
    "total_calls": 3
  },
  "pytorch.wait_counter.c10d.barrier": {
    "active_count": 1,
    "total_calls": 1
  }
}
"""


def stacks_of(text: str, folder: Path) -> pd.DataFrame:
    return read_part(ProcessStacks, text, folder)[0]["rank_stacks"]


def places(rows: pd.DataFrame) -> list[tuple[object, str, str, str]]:
    columns = ["rank", "state", "operation", "place"]
    return [
        (None if pd.isna(rank) else int(rank), *rest)
        for rank, *rest in rows[columns].itertuples(index=False)
    ]


def test_sections_of_the_debug_server_are_ranks(tmp_path: Path) -> None:
    rows = stacks_of(server_dump({0: "reduce", 1: "data", 2: "500"}), tmp_path)
    assert places(rows) == [
        (0, "collective", "all_reduce", "train.py:40"),
        (1, "data", "", "train.py:14"),
        (2, "no stack", "", ""),
    ]
    assert list(rows["host"]) == ["node0", "node0", "node1"]
    assert list(rows["line"]) == [1, 10, 19]


def test_an_error_of_another_dump_is_no_rank_without_a_stack(tmp_path: Path) -> None:
    assert stacks_of(server_dump({0: "404"}, "torchcomms_health_check"), tmp_path).empty


def test_prefixes_give_the_rank_of_lines_that_are_mixed(tmp_path: Path) -> None:
    lines = zip(faulthandler("reduce").splitlines(), faulthandler("data").splitlines(), strict=True)
    text = "".join(f"[1,0]<stderr>:{one}\n[1,1]<stderr>:{other}\n" for one, other in lines)
    assert places(stacks_of(text, tmp_path)) == [
        (1, "data", "", "train.py:14"),
        (0, "collective", "all_reduce", "train.py:40"),
    ]


def test_of_several_dumps_of_a_process_the_last_counts(tmp_path: Path) -> None:
    text = f"{faulthandler('data')}Timeout (0:01:00)!\n{faulthandler('reduce')}Killed\n"
    assert places(stacks_of(text, tmp_path)) == [(None, "collective", "all_reduce", "train.py:40")]


def test_two_processes_without_prefixes_are_two(tmp_path: Path) -> None:
    text = faulthandler("data", 0x7000) + faulthandler("reduce", 0x8000)
    assert [state for _, state, *_ in places(stacks_of(text, tmp_path))] == ["data", "collective"]


def test_processes_of_py_spy_and_gdb_have_their_number(tmp_path: Path) -> None:
    gdb = (
        'Thread 1 (Thread 0x7f02 (LWP 33) "python"):\n'
        "#0  0x1 in PMPI_Barrier () from /l/libmpi.so\n#1  0x2 in main ()\n"
        "[Inferior 1 (process 33) detached]\n"
    )
    rows = stacks_of(f"{py_spy('data', 31)}\n{py_spy('reduce', 32)}\n{gdb}", tmp_path)
    assert list(rows["pid"]) == [31, 32, 33]
    assert list(rows["tool"]) == ["py-spy", "py-spy", "gdb"]
    assert list(rows["operation"]) == ["", "all_reduce", "MPI_Barrier"]


def test_the_thread_that_crashed_counts(tmp_path: Path) -> None:
    crash = (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x000000000000aa00 (most recent call first):\n"
        '  File "kernel.py", line 7 in launch\n\n'
        "Thread 0x000000000000ab00 (most recent call first):\n"
        '  File "train.py", line 3 in <module>\n\nExtension modules: numpy\n'
    )  # fmt: skip
    assert [place for *_, place in places(stacks_of(crash, tmp_path))] == ["kernel.py:7"]


def test_an_active_wait_counter_is_a_wait(tmp_path: Path) -> None:
    (row,) = places(stacks_of(COUNTERS, tmp_path))
    assert row == (0, "wait counters", "c10d.barrier", "")


def test_frames_outside_a_stack_are_counted(tmp_path: Path) -> None:
    text = faulthandler("reduce").replace(
        '  File "train.py", line 40', 'step 7\n  File "a.py", line 4'
    )
    tables, reader = read_part(ProcessStacks, text, tmp_path)
    assert [note.number for note in reader.notes()] == [2]
    assert list(tables["rank_stacks"]["place"]) == [""]


@pytest.mark.parametrize(
    "text", ["", "loss 0.3\n", 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n']
)
def test_other_output_has_no_stack(text: str, tmp_path: Path) -> None:
    assert stacks_of(text, tmp_path).empty


def json_dump(place: str) -> str:
    frames = [{"name": name, "filename": file, "line": line} for file, line, name in PLACES[place]]
    thread = {"pid": 31, "thread_id": 7, "thread_name": "MainThread", "os_thread_id": 31}
    return json.dumps([thread | {"frames": frames}], indent=2)


def test_json_of_py_spy_has_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "stack.rank3.json"
    path.write_text(json_dump("reduce"))
    ((name, rows),) = read_stack_json(path)
    assert name == "rank_stacks"
    assert places(rows) == [(3, "collective", "all_reduce", "train.py:40")]
    assert list(rows["pid"]) == [31]


@pytest.mark.parametrize(
    "damage", [lambda text: text[: len(text) // 2], lambda text: '[{"pid": 1}]']
)
def test_torn_json_is_refused(damage: object, tmp_path: Path) -> None:
    path = tmp_path / "torn.json"
    assert callable(damage)
    path.write_text(damage(json_dump("reduce")))
    with pytest.raises(UnreadableInputError, match="damaged dump of py-spy"):
        read_stack_json(path)
