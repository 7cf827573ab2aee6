import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hvdprof.api import analyze_run, list_runs, load_run, write_report
from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from tests.builders.examples import examples
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


@pytest.mark.heavy
def test_from_the_folder_to_a_report(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PassSpec(), PassSpec(size=2)])
    analysis = analyze_run(load_run(folder))
    target = tmp_path / "scaling.json"
    write_report(analysis, target)
    assert json.loads(target.read_text())["verdict"]["sentence"] == analysis.verdict.sentence


@pytest.mark.heavy
def test_the_format_may_be_named(tmp_path: Path) -> None:
    analysis = analyze_run(load_run(write_run(tmp_path / "run", [PassSpec()])))
    target = tmp_path / "report.data"
    write_report(analysis, target, format="json")
    assert json.loads(target.read_text())["schema_version"] == 2
    with pytest.raises(UsageError):
        write_report(analysis, tmp_path / "other.data")


@pytest.mark.heavy
def test_a_report_is_not_overwritten_unasked(tmp_path: Path) -> None:
    analysis = analyze_run(load_run(write_run(tmp_path / "run", [PassSpec()])))
    target = tmp_path / "scaling.json"
    target.write_text("mine")
    with pytest.raises(StorageError):
        write_report(analysis, target)
    assert target.read_text() == "mine"
    write_report(analysis, target, overwrite=True)
    assert target.read_text() != "mine"


def test_runs_are_listed_newest_first_and_damaged_ones_say_why(tmp_path: Path) -> None:
    for day in (3, 5, 4):
        write_run(tmp_path / f"day{day}", [], name=f"of day {day}", created_at=f"2026-11-0{day}")
    for name, text in {"damaged": "{", "deep": "[" * 100_000 + "]" * 100_000}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(text)
    (tmp_path / "no run").mkdir()
    entries = list_runs(tmp_path)
    assert [entry.name for entry in entries[:3]] == ["of day 5", "of day 4", "of day 3"]
    assert {entry.name for entry in entries[3:]} == {"damaged", "deep"}
    assert [bool(entry.problem) for entry in entries] == [False, False, False, True, True]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError):
        list_runs(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    segment = SegmentSpec(num_steps=6, parts_ms=typical_parts(10, 2), loss=1.0)
    passes = [
        PassSpec(segments=[segment]),
        PassSpec(size=2, segments=[segment], clock_error_ns=5),
        PassSpec(size=2, mode="trace", segments=[replace(segment, timeline=True)]),
    ]
    return write_run(tmp_path_factory.mktemp("recorded"), passes)


@pytest.mark.slow
@settings(
    max_examples=examples(112),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_no_damage_to_a_recording_is_a_traceback(recorded: Path, data: st.DataObject) -> None:
    files = sorted(path for path in recorded.glob("passes/*/*/*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    intact = path.read_bytes()
    start = data.draw(st.integers(0, len(intact)))
    length = data.draw(st.integers(0, 200))
    noise = data.draw(st.sampled_from([b"", b"\n", b"0", b"-", b"9" * 18, b"null", b"\xff", b"[{"]))
    damaged = intact[:start] + noise + intact[start + length :]
    if damaged == intact:
        return
    try:
        path.write_bytes(damaged)
        run = load_run(recorded)
        analysis = analyze_run(run)
    finally:
        path.write_bytes(intact)
    assert analysis.verdict.sentence.endswith(".")


@pytest.mark.heavy
def test_steps_of_a_segment_that_the_plan_does_not_know_are_left_out(recorded: Path) -> None:
    path = sorted(recorded.glob("passes/*throughput*/recorder/rank-0.jsonl"))[1]
    intact = path.read_bytes()
    (segment,) = {
        row["segment"] for row in map(json.loads, intact.decode().splitlines()) if "segment" in row
    }
    renamed = intact.replace(f'"segment": "{segment}"'.encode(), b'"segment": "0"')
    renamed = renamed.replace(f'"segment":"{segment}"'.encode(), b'"segment":"0"')
    assert renamed != intact
    try:
        path.write_bytes(renamed)
        analysis = analyze_run(load_run(recorded))
    finally:
        path.write_bytes(intact)
    assert analysis.verdict.sentence.endswith(".")
