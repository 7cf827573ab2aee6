import gzip
import json
import pickle
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.flight_recorder import dump_file
from hvdprof.ingest.flight_recorder.dump_file import read_dump
from hvdprof.ingest.load import Kind, load_run, recognise
from hvdprof.model.notes import texts
from tests.builders.flight_dumps import STARTED_NS, Content, dump, write_dumps


@pytest.mark.parametrize("as_json", [True, False])
def test_calls_of_all_ranks_are_matched_by_their_number(tmp_path: Path, as_json: bool) -> None:
    dumps = {rank: dump(ranks=(0, 1, 2), late_ns=rank * 1000) for rank in range(3)}
    run = load_run([write_dumps(tmp_path, dumps, as_json=as_json)])
    calls = run.rank_collectives
    assert len(calls) == 15
    assert set(calls["source"]) == {"flight-recorder"}
    assert set(calls.groupby("match_id")["rank"].nunique()) == {3}
    first = calls[calls["seq"] == 1].sort_values("rank")
    assert list(first["submitted_ns"] - STARTED_NS - 10**9) == [0, 1000, 2000]
    assert set(first["collective"]) == {"ALLREDUCE"}
    assert set(first["size_bytes"]) == {4096}
    assert calls["end_ns"].isna().all()
    progress = run.collective_progress
    assert list(progress["last_completed"]) == [5, 5, 5]
    assert set(run.files["kind"]) == {"PyTorch Flight Recorder dump"}


def test_disjoint_groups_of_one_name_share_no_collective(tmp_path: Path) -> None:
    members = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    # The second pair is a second later: no rank of the first waits for it.
    dumps = {
        rank: dump(ranks=own, late_ns=own[0] * 10**9 // 2 + rank, desc="mesh_dp")
        for rank, own in members.items()
    }
    calls = load_run([write_dumps(tmp_path, dumps)]).rank_collectives
    assert set(calls["group"]) == {"0 (ranks 0 and 1)", "0 (ranks 2 and 3)"}
    together = [tuple(sorted(own["rank"])) for _, own in calls.groupby("match_id")]
    assert together.count((0, 1)) == together.count((2, 3)) == 5
    assert len(together) == 10


def test_a_ring_that_begins_later_on_one_rank_matches_by_number(tmp_path: Path) -> None:
    late = dump()
    entries = late["entries"]
    assert isinstance(entries, list)
    late["entries"] = entries[2:]
    calls = load_run([write_dumps(tmp_path, {0: dump(), 1: late})]).rank_collectives
    matched = calls[calls["match_id"] >= 0]
    assert sorted(matched["seq"]) == [3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize("version", ["2.4", "2.9", "2.10"])
def test_without_status_entries_say_how_far_a_rank_came(tmp_path: Path, version: str) -> None:
    content = dump(enqueued=5, completed=3, version=version)
    del content["pg_status"]
    write_dumps(tmp_path, {1: content})
    group = read_dump(tmp_path / "dump_1").groups["0"]
    assert (group.enqueued, group.completed, group.ranks) == (5, 3, (0, 1))


def test_gloo_has_arrivals_and_no_completions(tmp_path: Path) -> None:
    content = dump(ranks=(), library="gloo", completed=4)
    content["pg_status"] = {
        "0": {"last_enqueued_collective": "5", "last_completed_collective": "4"}
    }
    write_dumps(tmp_path, {0: content}, as_json=True)
    read = read_dump(tmp_path / "dump_0.json")
    assert read.groups["0"].enqueued == 5
    assert read.groups["0"].completed is None
    assert {call.state for call in read.calls} == {""}


def test_a_compressed_dump_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dump_0.json.gz"
    path.write_bytes(gzip.compress(json.dumps(dump()).encode()))
    assert recognise(path).kind == Kind.FLIGHT_RECORDER
    assert len(read_dump(path).calls) == 5


def note_of(folder: Path) -> str:
    (note,) = texts(load_run([folder]).notes)
    return note


def test_a_second_file_of_a_rank_is_left_out(tmp_path: Path) -> None:
    write_dumps(tmp_path, {0: dump(), 1: dump(late_ns=7)})
    write_dumps(tmp_path, {1: dump(late_ns=7)}, prefix="dump_0")
    assert "is a dump of rank 1 too; left out" in note_of(tmp_path)


def test_a_copy_under_the_name_of_another_rank_is_left_out(tmp_path: Path) -> None:
    write_dumps(tmp_path, {0: dump(), 1: dump()})
    assert "a copy of" in note_of(tmp_path)


def test_a_rank_that_the_groups_contradict_is_left_out(tmp_path: Path) -> None:
    write_dumps(tmp_path, {0: dump(), 5: dump(late_ns=7)})
    assert "named as rank 5, but its process groups do not include that rank" in note_of(tmp_path)


def test_the_groups_of_a_single_rank_correct_no_name(tmp_path: Path) -> None:
    write_dumps(tmp_path, {0: dump(), 1: dump(ranks=(3,))})
    assert "are those of rank 3" in note_of(tmp_path)


def test_a_torn_dump_is_noted_and_the_others_are_read(tmp_path: Path) -> None:
    write_dumps(tmp_path, {0: dump(), 1: dump(late_ns=7)}, as_json=True)
    text = (tmp_path / "dump_1.json").read_text()
    (tmp_path / "dump_1.json").write_text(text[:-200])
    assert "is torn or damaged" in note_of(tmp_path)


class Calls:
    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return print, ("pg_status",)


def test_a_pickle_with_a_call_ends_in_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump_0").write_bytes(pickle.dumps({"pg_status": Calls()}, protocol=2))
    with pytest.raises(
        UnreadableInputError, match=r"would call a function or class when loaded \(byte \d+\)"
    ):
        load_run([tmp_path / "dump_0"])
    assert capsys.readouterr().out == ""


@pytest.mark.heavy
def test_a_huge_file_is_refused_before_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_file, "load_plain", lambda data: pytest.fail("it was read"))
    path = tmp_path / "dump_0"
    with path.open("wb") as stream:
        stream.write(pickle.dumps({"pg_status": {}}, protocol=2)[:-1])
        stream.truncate(2**30)
    with pytest.raises(UnreadableInputError, match="holds more than 128 MiB"):
        load_run([path])


@pytest.mark.parametrize(
    "text",
    [
        '{"pg_status": ' + "[" * 100_000,
        '{"pg_status": {}}',
        '{"pg_status": {"0": 3}, "entries": [1]}',
    ],
)
def test_json_that_is_no_dump_ends_in_one_message(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dump_0.json"
    path.write_text(text)
    with pytest.raises(UnreadableInputError):
        load_run([path])


def test_odd_values_in_entries_are_missing(tmp_path: Path) -> None:
    content: Content = dump(enqueued=1)
    entries = content["entries"]
    assert isinstance(entries, list)
    entries[0] |= {"input_sizes": [["x"]], "output_sizes": 7, "time_created_ns": 10**30}
    entries.append({**dump(enqueued=2)["entries"][1], "input_dtypes": ["New"]})  # type: ignore[index]
    write_dumps(tmp_path, {0: content})
    (call,) = read_dump(tmp_path / "dump_0").calls
    assert (call.seq, call.size_bytes) == (2, 4096)


def test_a_timeout_beyond_64_bits_of_nanoseconds_is_missing(tmp_path: Path) -> None:
    content: Content = dump(enqueued=1)
    content["entries"][0] |= {"timeout_ms": 2**62, "state": "scheduled"}  # type: ignore[index]
    write_dumps(tmp_path, {0: content})
    progress = load_run([tmp_path]).table("collective_progress")
    assert progress["timeout_ns"].isna().all()
