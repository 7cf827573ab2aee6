import errno
import json
import math
import os
import shutil
from io import BufferedReader
from pathlib import Path

import numpy as np
import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.load_run import load_run_directory as load_run
from hvdprof.ingest.storage import parquet_cache, sealed_file
from hvdprof.model.notes import texts
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, RANKS, SEGMENTS, STEPS
from hvdprof.rundir.regular_file import open_regular
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

TRACED = SegmentSpec(timeline=True, num_steps=5, parts_ms=typical_parts(12, blocked_ms=2))


@pytest.mark.heavy
def test_progress_counts_the_bytes_of_all_files_and_names_each(tmp_path):
    segment = SegmentSpec(timeline=True)
    specs = [PassSpec(), PassSpec(size=2, mode="trace", segments=[segment])]
    folder = write_run(tmp_path / "run", specs)
    reports = []
    run = load_run(folder, progress=lambda *values: reports.append(values))
    files = [path for path in folder.glob("passes/*/*/*") if path.is_file()]
    assert {Path(file) for file, _, _ in reports} == set(files)
    done = [count for _, count, _ in reports]
    total = sum(path.stat().st_size for path in [*files, folder / "manifest.json"])
    assert {value for _, _, value in reports} == {total}
    assert done == sorted(done)
    assert 0 < done[-1] <= total
    assert run.steps.equals(load_run(folder).steps)


def test_all_tables_are_as_declared(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, [PassSpec(), PassSpec(size=2, segments=[TRACED])]))
    for table, frame in (
        (SEGMENTS, run.segments),
        (RANKS, run.ranks),
        (STEPS, run.steps),
        (ARRIVALS, run.arrivals),
        (EVENTS, run.events),
    ):
        assert list(frame.columns) == table.column_names
        assert {str(c.dtype) for c in table.columns} >= {str(d) for d in frame.dtypes}
        assert len(frame)
    assert run.notes == ()


@pytest.mark.parametrize(("gpus", "oversubscribed"), [("a a", True), ("a b", False)])
def test_ranks_that_share_the_only_gpu_they_see_take_turns(
    tmp_path: Path, gpus: str, oversubscribed: bool
) -> None:
    folder = write_run(tmp_path, [PassSpec(size=2)])
    for path, gpu in zip(sorted(folder.glob("passes/*/recorder/*")), gpus.split(), strict=True):
        header, *lines = path.read_text().splitlines()
        own = {"device": "cuda:0", "gpu": gpu, "num_gpus": 1, "backend": "gloo"}
        path.write_text("\n".join([json.dumps(json.loads(header) | own), *lines, ""]))
    run = load_run(folder)

    assert list(run.segments["oversubscribed"]) == [oversubscribed]
    assert list(run.ranks["gpu"]) == gpus.split()
    assert list(run.ranks["num_gpus"]) == [1, 1]
    assert list(run.ranks["backend"]) == ["gloo", "gloo"]


def test_clocks_of_other_hosts_are_undone(tmp_path: Path) -> None:
    spec = PassSpec(
        size=3,
        hosts=["a", "b", "c"],
        offset_ms=[0, 3_600_000, -50],
        drift_ms=[0, 0.4, -0.2],
        clock_error_ns=9_000,
        segments=[SegmentSpec(parts_ms=typical_parts(10), num_steps=20)],
    )
    run = load_run(write_run(tmp_path, [spec]))
    by_rank = run.steps.pivot(index="step", columns="rank", values="start_ns")
    assert (by_rank.max(axis=1) - by_rank.min(axis=1)).max() <= 3
    ready = run.arrivals.pivot_table(
        index=["step", "tensor"], columns="rank", values="ready_ns", observed=True
    )
    # Lengths within a step are the true ones here, not those of a clock that runs 0.01 % fast.
    assert (ready.max(axis=1) - ready.min(axis=1)).max() <= 1_000
    assert list(run.ranks["clock_error_ns"]) == [9_000] * 3
    assert list(run.ranks["clock_method"]) == ["tcp"] * 3


def test_parts_of_a_step_are_in_their_columns(tmp_path: Path) -> None:
    parts = {
        "data": 1,
        "forward": 2,
        "backward": 4,
        "blocked": 8,
        "optimizer": 16,
        "outside": 32,
    }
    run = load_run(write_run(tmp_path, [PassSpec(segments=[SegmentSpec(parts_ms=parts)])]))
    row = run.steps.iloc[5]
    assert {part: row[f"{part}_ns"] / 1e6 for part in parts} == parts
    assert row["dur_ns"] == 63_000_000


def test_the_timeline_lies_on_the_clock_and_in_the_steps_of_rank_0(tmp_path: Path) -> None:
    spec = PassSpec(size=2, mode="trace", segments=[TRACED])
    run = load_run(write_run(tmp_path, [spec]))
    operations = run.events[run.events["phase"] == "operation"]
    assert list(operations["step"]) == [2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    rank_0 = run.steps[run.steps["rank"] == 0].set_index("step")
    for row in operations.to_dict("records"):
        step = rank_0.loc[row["step"]]
        end_ns = step["start_ns"] + step["dur_ns"] - step["optimizer_ns"] - step["outside_ns"]
        assert abs(row["start_ns"] + row["dur_ns"] - end_ns) <= row["clock_error_ns"]
        assert row["dur_ns"] == 2_000_000
    sizes = operations.groupby("fusion_id")["size_bytes"].sum()
    assert list(sizes) == [4040] * 5


def test_a_wall_clock_that_was_set_is_in_the_error(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [PassSpec(mode="trace", segments=[TRACED])])
    (path,) = folder.glob("passes/*/recorder/rank-0.jsonl")
    lines = path.read_text().splitlines()
    stop = next(i for i, line in enumerate(lines) if '"action": "stop"' in line)
    wall = lines[stop].rsplit(": ", 1)[1].rstrip("}")
    lines[stop] = lines[stop].replace(wall, str(int(wall) + 5_000_000))
    path.write_text("\n".join(lines) + "\n")
    run = load_run(folder)
    timeline = run.events[run.events["source"] == "timeline"]
    assert set(timeline["clock_error_ns"]) == {5_001_000}


def test_a_missing_rank_a_missing_timeline_and_a_killed_rank_are_notes(tmp_path: Path) -> None:
    spec = PassSpec(size=3, segments=[TRACED], missing_ranks=[1], with_end=False)
    folder = write_run(tmp_path, [spec])
    shutil.rmtree(folder / "passes/01-np3-throughput-r1/timeline")
    run = load_run(folder)
    assert sorted(texts(run.notes)) == [
        "01-np3-throughput-r1: no recording of rank 1.",
        "01-np3-throughput-r1: no timeline of mnist-horovod-none-average.",
        "01-np3-throughput-r1: recording of ranks 0 and 2: it has no end: "
        "the rank did not end on its own.",
    ]
    assert list(run.segments["num_ranks_recorded"]) == [2]
    assert list(run.ranks["ended"]) == [False, False]


def test_a_timeline_without_rank_0_keeps_its_own_time(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, [PassSpec(size=2, segments=[TRACED], missing_ranks=[0])]))
    assert "without a recording of rank 0 it cannot be placed on its clock" in " ".join(
        texts(run.notes)
    )
    timeline = run.events[run.events["source"] == "timeline"]
    assert set(timeline["step"]) == {-1}
    assert set(timeline["clock_error_ns"]) == {1_000_000_000}


def test_a_run_that_has_just_begun_loads_without_complaint(tmp_path: Path) -> None:
    segment = SegmentSpec(status="planned")
    folder = write_run(tmp_path, [PassSpec(segments=[segment], status="planned")], status="running")
    shutil.rmtree(folder / "passes")
    run = load_run(folder)
    assert len(run.steps) == len(run.events) == len(run.ranks) == 0
    assert list(run.segments["status"]) == ["planned"]
    assert run.notes == ()


def test_parts_of_steps_are_events_where_they_were_recorded(tmp_path: Path) -> None:
    parts = {"data": 1.0, "forward": 4.0, "backward": 6.0, "blocked": 2.0, "optimizer": 1.0}
    spec = PassSpec(
        size=2,
        offset_ms=[0, 700],
        segments=[SegmentSpec(num_steps=1, num_warmup_batches=1, parts_ms=parts)],
    )
    run = load_run(write_run(tmp_path, [spec]))
    step = run.steps.query("rank == 1 and step == 1").iloc[0]
    events = run.events.query("rank == 1 and step == 1")
    found = {
        (row.activity, (row.start_ns - step["start_ns"]) / 1e6, row.dur_ns / 1e6)
        for row in events.itertuples()
    }
    assert found == {
        ("data", 0.0, 1.0),
        ("forward", 1.0, 4.0),
        ("backward", 5.0, 6.0),
        ("optimizer", 11.0, 3.0),
        ("blocked", 11.0, 2.0),
    }
    assert set(events["phase"]) == {"part"}


def test_marks_of_the_script_are_events(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [PassSpec(segments=[SegmentSpec(num_steps=3)])])
    (path,) = folder.glob("passes/*/recorder/rank-0.jsonl")
    mark = '{"kind": "mark", "name": "checkpoint", "monotonic_ns": 6000000000}\n'
    path.write_text(path.read_text() + mark)
    run = load_run(folder)
    (row,) = run.events[run.events["phase"] == "mark"].to_dict("records")
    assert (row["source"], row["activity"], row["start_ns"]) == (
        "recorder",
        "checkpoint",
        6 * 10**9,
    )


@pytest.mark.heavy
def test_names_are_categories(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, [PassSpec(size=2), PassSpec(size=4)]))
    assert set(run.arrivals["pass_id"].cat.categories) == {
        "01-np2-throughput-r1",
        "02-np4-throughput-r1",
    }
    assert np.all(run.arrivals["tensor"].cat.codes >= 0)


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="not a run directory"):
        load_run(tmp_path)


def test_a_segment_in_which_no_gradient_was_watched(tmp_path: Path) -> None:
    spec = PassSpec(segments=[SegmentSpec(engine="torch", tensors={}, num_steps=4)])
    run = load_run(write_run(tmp_path, [spec]))
    assert len(run.steps) == 6
    assert len(run.arrivals) == 0


@pytest.mark.heavy
def test_what_is_no_regular_file_of_the_run_is_noted_and_not_read(tmp_path: Path) -> None:
    spec = PassSpec(size=4, mode="trace", segments=[TRACED])
    folder = write_run(tmp_path / "run", [spec])
    (pass_folder,) = (folder / "passes").iterdir()
    recorder = pass_folder / "recorder"
    outside = tmp_path / "rank-1.jsonl"
    (recorder / "rank-1.jsonl").rename(outside)
    (recorder / "rank-1.jsonl").symlink_to(outside)
    (recorder / "rank-2.jsonl").unlink()
    os.mkfifo(recorder / "rank-2.jsonl")
    (recorder / "rank-3.jsonl").unlink()
    (recorder / "rank-3.jsonl").symlink_to("/dev/zero")
    for name in ("timeline/main.json", "stalls.jsonl", "turns.jsonl"):
        (pass_folder / name).unlink(missing_ok=True)
        os.mkfifo(pass_folder / name)
    os.mkfifo(folder / "net.jsonl")
    (pass_folder / "nccl").symlink_to("/etc")
    run = load_run(folder)
    assert set(run.ranks["rank"]) == {0}
    text = "\n".join(texts(run.notes))
    assert text.count("a link leads out of the run directory") > 2
    assert text.count("it is a named pipe, not a file") == 4, text
    assert "passwd" not in text


@pytest.mark.heavy
def test_the_cache_leaves_out_what_lies_outside_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
    folder = write_run(tmp_path / "run", [PassSpec(size=2)])
    (recorder,) = folder.glob("passes/*/recorder")
    outside = tmp_path / "rank-1.jsonl"
    (recorder / "rank-1.jsonl").rename(outside)
    (recorder / "rank-1.jsonl").symlink_to(outside)
    opened = []

    def noted(path: Path) -> BufferedReader:
        opened.append(path.resolve())
        return open_regular(path)

    monkeypatch.setattr(sealed_file, "open_regular", noted)
    assert any(
        "a link leads out of the run directory" in note for note in texts(load_run(folder).notes)
    )
    assert opened
    assert outside not in opened


@pytest.mark.heavy
def test_a_file_that_may_not_be_read_or_is_gone_ends_no_load_with_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_cache, "CACHE_FROM_BYTES", 0)
    folder = write_run(tmp_path / "run", [PassSpec(size=2)])
    (recorder,) = folder.glob("passes/*/recorder")
    core = recorder / "core"
    core.touch()
    steps = load_run(folder).steps
    reasons = [errno.EACCES, errno.ENOENT]

    def refusing(path: Path) -> BufferedReader:
        if path == core:
            raise OSError(reasons[0], os.strerror(reasons[0]), str(path))
        return open_regular(path)

    monkeypatch.setattr(sealed_file, "open_regular", refusing)
    assert load_run(folder).steps.equals(steps)
    reasons.pop(0)
    with pytest.raises(UnreadableInputError, match=f"{core} cannot be read: No such file"):
        load_run(folder)


def test_a_manifest_elsewhere_is_not_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [PassSpec()])
    (folder / "manifest.json").rename(tmp_path / "manifest.json")
    (folder / "manifest.json").symlink_to(tmp_path / "manifest.json")
    with pytest.raises(UnreadableInputError, match="a link leads out of the run directory"):
        load_run(folder)


def test_processor_time_of_ranks_is_in_cores(tmp_path):
    folder = write_run(
        tmp_path / "run", [PassSpec(size=2, segments=[SegmentSpec(parts_ms=typical_parts(10))])]
    )
    assert load_run(folder).segments["busy_cores"].isna().all()
    busy_ns = {"segment": 5_000_000, "segment_end": 5_000_000}
    for rank, share in ((0, 1.0), (1, 0.2)):
        (path,) = folder.glob(f"passes/*/recorder/rank-{rank}.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        steps_ns = sum(line["dur_ns"] for line in lines if line["kind"] == "step")
        used = dict(busy_ns, segment_end=busy_ns["segment"] + round(share * steps_ns))
        for line in lines:
            if line["kind"] in used:
                line["process_time_ns"] = used[line["kind"]]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert load_run(folder).segments["busy_cores"].tolist() == [pytest.approx(1.2)]


@pytest.mark.parametrize(("launched_s", "expected_s"), [(-2.5, 2.5), (None, None), (60.0, None)])
def test_startup_is_the_time_from_the_launch_to_the_first_step_of_the_first_segment(
    tmp_path, launched_s, expected_s
):
    specs = [
        SegmentSpec(parts_ms=typical_parts(10)),
        SegmentSpec(model="resnet18", parts_ms=typical_parts(20)),
    ]
    folder = write_run(tmp_path / "run", [PassSpec(size=2, segments=specs)])
    (path,) = folder.glob("passes/*/recorder/rank-0.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    first_ns = min(line["start_ns"] for line in lines if line["kind"] == "step")
    first_wall_ns = lines[0]["wall_ns"] + first_ns - lines[0]["monotonic_ns"]
    manifest = json.loads((folder / "manifest.json").read_text())
    if launched_s is not None:
        manifest["passes"][0]["launched_ns"] = first_wall_ns + round(launched_s * 1e9)
    (folder / "manifest.json").write_text(json.dumps(manifest))

    first, second = load_run(folder).segments["startup_ns"]

    assert math.isnan(second)
    assert math.isnan(first) if expected_s is None else first == pytest.approx(expected_s * 1e9)
