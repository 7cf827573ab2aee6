"""Workers are sampled from their begin on, however multiprocessing makes them."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hvdprof.collect.auto.startup import FOLDER
from hvdprof.collect.auto.startup.hvdprof_import_hook import watch_workers
from hvdprof.collect.lines import worker_lines as module
from hvdprof.collect.lines.line_window import LineFile
from hvdprof.collect.lines.worker_lines import (
    MOST_WORKERS,
    PARENT,
    WorkerSamples,
    start_worker,
    stop_worker,
)
from hvdprof.collect.steps.header import LineWriter
from hvdprof.rundir.layout import PassPaths, request_file
from hvdprof.rundir.rank_requests import Request, write_requests
from tests.builders.places import ROOT

SCRIPT = """
import multiprocessing, os, sys, time

def load():
    time.sleep(float(sys.argv[4]) if sys.argv[4:] else 0.8)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for _ in range(int(sys.argv[2])):
        workers = [context.Process(target=load) for _ in range(int(sys.argv[3]))]
        for worker in workers:
            worker.start()
        if sys.argv[4:]:
            time.sleep(3.5)
            workers[0].kill()
        for worker in workers:
            worker.join()
        print([worker.exitcode for worker in workers])
    if os.fork() == 0:
        time.sleep(0.1)
        os._exit(0)
    os.wait()
"""


def run(folder: Path, *arguments: str, hz: str = "100") -> subprocess.CompletedProcess[str]:
    """Run the script below the startup folder, as rank 3."""
    script = folder / "job.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HVDPROF_")},
        "HVDPROF_AUTORECORD": "{}",
        "HVDPROF_RECORDER_DIR": str(PassPaths(folder).recorder_folder),
        "HVDPROF_LINES": hz,
        "PYTHONPATH": f"{FOLDER}:{ROOT}",
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "4",
        "HOROVOD_LOCAL_RANK": "3",
        "HOROVOD_LOCAL_SIZE": "4",
    }
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def lines_of(path: Path) -> list[Any]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def functions(lines: list[Any]) -> set[tuple[str, str]]:
    """Files and functions of the sampled lines."""
    return {
        (Path(place[1]).name, place[3])
        for line in lines
        if line["kind"] == "lines"
        for place in line["places"]
    }


@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver"])
def test_workers_are_sampled_and_other_processes_are_not(tmp_path: Path, kind: str) -> None:
    ended = run(tmp_path, kind, "1", "2")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[0, 0]\n", "")
    files = PassPaths(tmp_path).lines_files()[3]
    assert [path.name for path in files] == [f"lines-3-worker-{number}.jsonl" for number in (0, 1)]
    for path in files:
        lines = lines_of(path)
        (begin,) = [line for line in lines if line["kind"] == "sampling"]
        assert (begin["rank"], begin["process"]) == (3, "worker")
        assert ("job.py", "load") in functions(lines)
        # Where it was forked is no line of the worker.
        assert ("job.py", "<module>") not in functions(lines)


def test_files_are_taken_over_by_later_workers(tmp_path: Path) -> None:
    ended = run(tmp_path, "fork", "3", "1")

    assert ended.stdout == "[0]\n" * 3, ended.stderr
    (path,) = PassPaths(tmp_path).lines_files()[3]
    lines = lines_of(path)
    assert [line["kind"] for line in lines] == ["sampling", "lines"] * 3
    assert len({line["pid"] for line in lines if line["kind"] == "sampling"}) == 3


def test_a_worker_that_is_killed_leaves_what_it_wrote(tmp_path: Path) -> None:
    ended = run(tmp_path, "fork", "1", "1", "6")

    assert ended.stdout == "[-9]\n", ended.stderr
    (path,) = PassPaths(tmp_path).lines_files()[3]
    # On a busy machine a sample may find it before its first line.
    assert functions(lines_of(path)) - {("", "")} == {("job.py", "load")}


def test_only_some_of_many_workers_are_sampled(tmp_path: Path) -> None:
    ended = run(tmp_path, "fork", "1", str(MOST_WORKERS + 3))

    assert ended.returncode == 0, ended.stderr
    assert len(PassPaths(tmp_path).lines_files()[3]) == MOST_WORKERS


def test_nothing_is_sampled_where_that_is_asked_for(tmp_path: Path) -> None:
    ended = run(tmp_path, "fork", "1", "1", hz="0")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert PassPaths(tmp_path).lines_files() == {}


def test_what_cannot_be_written_is_said_and_the_worker_runs(tmp_path: Path) -> None:
    (tmp_path / "recorder").write_text("no folder")
    ended = run(tmp_path, "fork", "1", "1")

    assert (ended.returncode, ended.stdout) == (0, "[0]\n")
    assert "no lines of a worker are sampled" in ended.stderr


def test_a_file_without_room_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_held", [])
    monkeypatch.setattr(PARENT, "folder", None)
    PARENT.know(tmp_path / "recorder", 0)
    start_worker()
    time.sleep(0.2)
    stop_worker()
    (path,) = PassPaths(tmp_path).lines_files()[0]
    for held in module._held:
        held.close()
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * 20_000)
    size = path.stat().st_size
    start_worker()
    assert PARENT.sampler is None
    stop_worker()
    assert path.stat().st_size == size
    for held in module._held:
        held.close()


def test_a_worker_answers_what_its_rank_is_asked(tmp_path: Path) -> None:
    folder = PassPaths(tmp_path).recorder_folder
    folder.mkdir()
    write_requests(request_file(folder, 3), [Request(0, samples=True)])
    ended = run(tmp_path, "spawn", "1", "1", "5")

    assert ended.returncode == 0, ended.stderr
    answered = lines_of(folder / "event-0-rank-3-worker-0.jsonl")
    assert answered[0]["hz"] == 100


def test_a_process_that_nobody_knows_as_a_rank_is_not_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PARENT, "folder", None)
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("HOROVOD_", "OMPI_", "PMI_", "SLURM_")) or name == "RANK":
            monkeypatch.delenv(name)
    start_worker()

    assert PARENT.sampler is None
    assert list(tmp_path.iterdir()) == []


def test_workers_are_watched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    process = multiprocessing.process
    monkeypatch.setattr(process.BaseProcess, "_bootstrap", lambda self: 7)
    watch_workers(process)
    watched = process.BaseProcess._bootstrap  # type: ignore[attr-defined]
    watch_workers(process)

    assert process.BaseProcess._bootstrap is watched  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "start_worker", lambda: None)
    assert watched(None) == 7


def test_the_time_of_a_while_counts_once_where_it_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    file = LineFile(LineWriter(path), [("", 0, "", "other")], 0, 600, 3600)
    samples = WorkerSamples(file, 0)
    for second in range(0, 800, 2):
        samples.take(second * 1_000_000_000, 0, 2, 1)
    samples.finish(800_000_000_000)
    lines = [line for line in lines_of(path) if line["kind"] == "lines"]

    assert 1 < len(lines) < 10
    assert all(line["phases"][0][2] == line["end_ns"] - line["start_ns"] for line in lines)
