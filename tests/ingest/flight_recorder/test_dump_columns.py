"""Columns of a dump hold the same calls as its entries read one by one."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hvdprof.api import analyze_files, load_run
from hvdprof.cli.main import build_app
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.flight_recorder.dump_columns import read_dump_columns
from hvdprof.ingest.flight_recorder.dump_file import read_dump
from hvdprof.model.notes import texts
from tests.builders.flight_dumps import Content, dump, entry, write_dumps
from tests.builders.places import CORPUS, needs_corpus

HOUR_NS = 3_600_000_000_000
OTHERS: dict[str, tuple[Content, str]] = {
    "ranks": (
        dump(ranks=(0, 1, 2, 3), late_ns=7),
        "process group 0 has ranks 0 and 1 in the first",
    ),
    "times": (dump(late_ns=8 * HOUR_NS), "is 7 h 59 min after the last one of the first"),
}


def _written(path: Path, entries: list[object], **keys: object) -> Path:
    path.write_text(json.dumps({**dump(), "entries": entries, **keys}))
    return path


def test_calls_are_those_of_the_entries_in_order_of_submission(tmp_path: Path) -> None:
    entries = [
        entry(3),
        entry(1) | {"input_sizes": [[7]], "output_sizes": [[7]]},
        entry(2) | {"time_created_ns": str(entry(2)["time_created_ns"]), "collective_seq_id": "2"},
        entry(5) | {"profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 9},
        entry(6) | {"profiling_name": "nccl:send 0->1", "is_p2p": True, "p2p_seq_id": 10},
        {"record_id": 9},
        entry(4, completed=False) | {"process_group": ["1", "tp"]},
    ]
    path = _written(tmp_path / "rank-0.json", entries)
    columns, whole = read_dump_columns(path), read_dump(path)
    assert len(whole.calls) == 6
    assert columns.created_ns.tolist() == [call.created_ns for call in whole.calls]
    assert columns.seq.tolist() == [call.seq for call in whole.calls]
    for place, call in zip(columns.kind.tolist(), whole.calls, strict=True):
        kind = columns.kinds[place]
        assert (kind.group, kind.name, kind.dtype) == (call.group, call.name, call.dtype)
        assert (kind.size_bytes, kind.state) == (call.size_bytes, call.state)
    assert [kind.is_world for kind in columns.kinds].count(False) == 1
    assert columns.to_monotonic_ns is None


def test_a_time_of_the_wall_clock_becomes_one_of_the_monotonic_clock(tmp_path: Path) -> None:
    clock = {"wall_ns": 1000, "monotonic_ns": 30}
    columns = read_dump_columns(_written(tmp_path / "a.json", [entry(1)], hvdprof_clock=clock))
    assert columns.to_monotonic_ns == -970
    broken = {"wall_ns": "1000", "monotonic_ns": 2**70}
    columns = read_dump_columns(_written(tmp_path / "b.json", [entry(1)], hvdprof_clock=broken))
    assert columns.to_monotonic_ns is None


def test_a_number_that_no_column_holds_is_no_call(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.json", [entry(1), entry(2) | {"time_created_ns": 2**80}])
    assert read_dump_columns(path).seq.tolist() == [1]


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[]")
    with pytest.raises(UnreadableInputError, match="no dump of the flight recorder"):
        read_dump_columns(path)


def _mixed(folder: Path, other: Content) -> Path:
    return write_dumps(folder, {0: dump(), 1: other})


@pytest.mark.heavy
@pytest.mark.parametrize("name", OTHERS)
def test_every_command_refuses_dumps_of_two_jobs(tmp_path: Path, name: str) -> None:
    other, reason = OTHERS[name]
    folder = _mixed(tmp_path / "dumps", other)
    for command in (
        ["analyze", folder],
        ["attach", tmp_path / "run", "--recording", folder],
        ["export", folder, "-o", tmp_path / "trace.json"],
    ):
        result = CliRunner().invoke(build_app(), list(map(str, command)))
        assert isinstance(result.exception, UnreadableInputError), command
        assert reason in result.exception.message
        assert "of one job" in result.exception.hint
    assert not (tmp_path / "run").exists()


def test_calls_of_one_number_hours_apart_are_of_two_jobs(tmp_path: Path) -> None:
    # Rings that reach back for hours overlap in time.
    contents = dump(), dump(late_ns=7)
    for number, content in enumerate(contents):
        entries = content["entries"]
        assert isinstance(entries, list)
        entries[0]["time_created_ns"] -= 5 * HOUR_NS
        for one in entries:
            one["collective_seq_id"] += number
    write_dumps(tmp_path, dict(enumerate(contents)))
    with pytest.raises(UnreadableInputError, match="call 2 of process group 0 is 5 h 1 s apart"):
        load_run([tmp_path])


def test_other_files_of_the_folder_are_read(tmp_path: Path) -> None:
    _mixed(tmp_path / "dumps", OTHERS["times"][0])
    write_dumps(tmp_path / "whole", {0: dump(), 1: dump(late_ns=7)})
    run = load_run([tmp_path])
    assert len(run.rank_collectives) == 10
    (note,) = texts(run.notes)
    assert "not dumps of one incident" in note
    assert sum(run.files["left_out"] == note) == 2


@pytest.mark.parametrize("late_ns", [0, 9 * 60 * 10**9])
def test_ranks_within_the_timeout_are_one_job(tmp_path: Path, late_ns: int) -> None:
    run = load_run([_mixed(tmp_path, dump(late_ns=late_ns + 7))])
    assert not run.notes


@pytest.mark.parametrize("groups", [((0, 1), (2, 3)), ((), ())])
def test_groups_of_one_name_without_common_ranks_are_no_contradiction(
    tmp_path: Path, groups: tuple[tuple[int, ...], ...]
) -> None:
    write_dumps(tmp_path, {0: dump(ranks=groups[0]), 2: dump(ranks=groups[1], late_ns=7)})
    assert not load_run([tmp_path]).notes


FOUR = {rank: dump(ranks=range(4), late_ns=rank) for rank in range(4)}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "names",
    [
        "nccl_trace_node{node}_rank_{rank}",
        "node{node}.rank{rank}.json",
        "node{node}/nccl_trace_rank_{rank}",
        "nccl_trace_rank_{rank}_node{node}",
    ],
)
def test_dumps_of_several_hosts_are_one_job(tmp_path: Path, names: str) -> None:
    for rank, content in FOUR.items():
        path = tmp_path / names.format(node=7 + rank // 2, rank=rank)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    run = load_run([tmp_path])
    assert not run.notes
    assert run.collective_progress["job"].nunique() == 1
    (page,) = analyze_files(run).files
    assert page.kind == "4 PyTorch Flight Recorder dumps"
    assert "missing_dumps" not in {fact.name for fact in page.facts}


@pytest.mark.parametrize(
    "other",
    [
        dump(ranks=(2, 3, 4, 5)),
        dump(ranks=range(4), late_ns=8 * HOUR_NS),
        dump(ranks=range(4), library="gloo"),
        dump(ranks=()),
    ],
)
def test_dumps_of_other_calls_or_ranks_stay_apart(tmp_path: Path, other: Content) -> None:
    write_dumps(tmp_path / "a", {rank: FOUR[rank] for rank in (0, 1)})
    write_dumps(tmp_path / "b", {3: other})
    assert load_run([tmp_path]).collective_progress["job"].nunique() == 2


@needs_corpus
def test_halves_of_two_recorded_jobs_are_refused(tmp_path: Path) -> None:
    recorded = CORPUS / "imports" / "flight_recorder"
    for number, name in enumerate(("gpu_error_1st", "lock_gil_1st")):
        for rank in range(8 * number, 8 * number + 8):
            shutil.copy(recorded / name / f"_dump_{rank}", tmp_path)
    with pytest.raises(UnreadableInputError, match="are dumps of different jobs"):
        load_run([tmp_path])
