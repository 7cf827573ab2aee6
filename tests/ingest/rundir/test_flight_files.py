"""The files of the Flight Recorder of trace launches: on the run's clock, and read when asked."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hvdprof.api import analyze_run, load_run, load_tables
from hvdprof.cli.main import build_app
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.flight_recorder.dump_columns import read_dump_columns
from hvdprof.ingest.rundir import flight_files
from hvdprof.ingest.storage import parquet_cache
from hvdprof.rundir.layout import RunPaths
from tests.builders.flight_dumps import dump
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.run_spec import FIRST_STEP_NS

STEP_NS = 10_000_000
NUM_STEPS = 12
LATE_NS = 2_000_000
PASS = "03-np2-trace-r1"
OFFSET_NS = 40_000_000
WALL_NS = 1_800_000_000_000_000_000


def _submitted_ns(rank: int, number: int) -> int:
    """True time of the call of a step, 8 ms after its start; rank 1 is later."""
    return FIRST_STEP_NS + number * STEP_NS + 8_000_000 + rank * LATE_NS // 2


def _content(rank: int, *, offset_ns: int = 0) -> dict[str, object]:
    """The dump of a rank whose monotonic clock is ``offset_ns`` behind that of rank 0."""
    content = dump(library="gloo", enqueued=NUM_STEPS)
    # Wall clocks of hosts differ by what NTP leaves: here by a second per rank.
    wall_less_monotonic = WALL_NS + rank * 10**9
    entries = content["entries"]
    assert isinstance(entries, list)
    for number, entry in enumerate(entries):
        own_ns = _submitted_ns(rank, number) - offset_ns
        entry["time_created_ns"] = own_ns + wall_less_monotonic
    content["hvdprof_clock"] = {"wall_ns": wall_less_monotonic + 77, "monotonic_ns": 77}
    return content


def _run(folder: Path, *, offset_ms: Sequence[float] = (0.0, 0.0), files: bool = True) -> Path:
    segment = SegmentSpec(engine="ddp", num_steps=NUM_STEPS - 2, parts_ms=typical_parts(10.0))
    passes = [
        PassSpec(size=1, segments=[segment]),
        PassSpec(size=2, segments=[segment]),
        PassSpec(size=2, segments=[segment], mode="trace", offset_ms=np.array(offset_ms)),
    ]
    write_run(folder, passes)
    home = RunPaths(folder).of_pass(PASS).flight_folder
    if files:
        home.mkdir()
        for rank, own_ms in enumerate(offset_ms):
            content = _content(rank, offset_ns=round(own_ms * 1e6))
            (home / f"rank-{rank}.json").write_text(json.dumps(content))
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize("offset_ms", [(0.0, 0.0), (0.0, 40.0)])
def test_arrivals_are_on_the_clock_of_rank_0(tmp_path: Path, offset_ms: Sequence[float]) -> None:
    calls = load_run(_run(tmp_path / "run", offset_ms=offset_ms)).rank_collectives
    assert set(calls["pass_id"]) == {PASS}
    assert set(calls["source"]) == {"flight-recorder"}
    for rank in (0, 1):
        own = calls[calls["rank"] == rank]
        assert own["arrival_ns"].tolist() == [_submitted_ns(rank, n) for n in range(NUM_STEPS)]
        assert own["step"].tolist() == list(range(NUM_STEPS))
        assert own["match_id"].tolist() == list(range(NUM_STEPS))
    assert set(calls["group_size"]) == {2}
    assert set(calls["state"]) == {""}


@pytest.mark.heavy
def test_collectives_have_the_wait_for_the_last_rank(tmp_path: Path) -> None:
    found = analyze_run(load_run(_run(tmp_path / "run"))).matched_collectives
    assert found["last_rank"].tolist() == [1] * NUM_STEPS
    assert found["wait_sum_ns"].tolist() == [LATE_NS // 2] * NUM_STEPS
    # The Flight Recorder notes no end under Gloo.
    assert found["transfer_ns"].isna().all()


@pytest.mark.heavy
def test_disjoint_groups_of_one_name_wait_for_none_of_the_other(tmp_path: Path) -> None:
    folder = _run(tmp_path / "run")
    home = RunPaths(folder).of_pass(PASS).flight_folder
    for rank in (0, 1):
        path = home / f"rank-{rank}.json"
        content = json.loads(path.read_text())
        content["pg_config"] = {"0": {"name": "0", "desc": "mesh_tp", "ranks": f"[{rank}]"}}
        for entry in content["entries"]:
            entry["process_group"] = ["0", "mesh_tp"]
        path.write_text(json.dumps(content))
    run = load_run(folder)
    assert set(run.rank_collectives["group"]) == {"0 (rank 0)", "0 (rank 1)"}
    assert set(run.rank_collectives["group_size"]) == {1}
    assert analyze_run(run).matched_collectives.empty


@pytest.mark.heavy
def test_no_file_is_read_before_its_table_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counted(path: Path) -> object:
        read.append(path)
        return read_dump_columns(path)

    monkeypatch.setattr(flight_files, "read_dump_columns", counted)
    folder = _run(tmp_path / "run")
    tables = load_tables(folder)
    assert "rank_collectives" in tables
    result = CliRunner().invoke(build_app(), ["sql", str(folder), "SELECT np FROM scaling"])
    assert result.exit_code == 0, result.output
    report = CliRunner().invoke(build_app(), ["analyze", str(folder), "--format", "json"])
    assert report.exit_code == 0, report.output
    assert read == []
    assert len(tables["matched_collectives"]) == NUM_STEPS
    assert len(tables["rank_collectives"]) == 2 * NUM_STEPS
    assert len(read) == 2


@pytest.mark.heavy
def test_sql_reads_them(tmp_path: Path) -> None:
    query = "SELECT last_rank, count(*) AS n FROM matched_collectives GROUP BY ALL"
    result = CliRunner().invoke(
        build_app(), ["sql", str(_run(tmp_path / "run")), query, "--format", "csv"]
    )
    assert result.output.splitlines() == ["last_rank,n", f"1,{NUM_STEPS}"]


@pytest.mark.heavy
def test_the_verdict_is_the_same_without_the_files(tmp_path: Path) -> None:
    having = analyze_run(load_run(_run(tmp_path / "with")))
    lacking = analyze_run(load_run(_run(tmp_path / "without", files=False)))
    assert having.verdict == lacking.verdict
    assert having.findings.equals(lacking.findings)
    assert lacking.matched_collectives.empty
    assert lacking.run.rank_collectives.empty
    assert not lacking.run.unread


@pytest.mark.heavy
def test_large_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 1000)
    folder = _run(tmp_path / "run")
    first = load_run(folder).rank_collectives
    monkeypatch.setattr(flight_files, "read_dump_columns", _fail)
    assert load_run(folder).rank_collectives.equals(first)


def _fail(path: Path) -> None:
    raise AssertionError(path)


def _torn(path: Path) -> None:
    path.write_text(path.read_text()[:500])


def _without_clock(path: Path) -> None:
    content = json.loads(path.read_text())
    del content["hvdprof_clock"]
    path.write_text(json.dumps(content))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("damage", "message"), [(_torn, "torn or damaged"), (_without_clock, "states no clock")]
)
def test_a_damaged_file_is_one_message_where_its_table_is_used(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = _run(tmp_path / "run")
    damage(RunPaths(folder).of_pass(PASS).flight_folder / "rank-1.json")
    run = load_run(folder)
    assert analyze_run(run).verdict.sentence
    with pytest.raises(UnreadableInputError, match=message):
        run.rank_collectives  # noqa: B018 - reads the files


def test_a_rank_without_a_file_leaves_the_calls_of_the_others(tmp_path: Path) -> None:
    folder = _run(tmp_path / "run")
    (RunPaths(folder).of_pass(PASS).flight_folder / "rank-1.json").unlink()
    calls = load_run(folder).rank_collectives
    assert set(calls["rank"]) == {0}
    assert set(calls["match_id"]) == {-1}
