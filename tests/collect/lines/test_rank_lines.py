"""Sampled lines of a rank beside its recording, from its begin to its end."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hvdprof import collect
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.lines.rank_lines import BYTES_AT_ONCE, BYTES_PER_HOUR
from hvdprof.collect.lines.worker_lines import BYTES_AT_ONCE as OF_WORKER
from hvdprof.collect.lines.worker_lines import BYTES_PER_HOUR as OF_WORKER_PER_HOUR
from hvdprof.collect.lines.worker_lines import MOST_WORKERS, PARENT
from hvdprof.collect.session import Session
from hvdprof.rundir.layout import PassPaths
from tests.builders.recorded import of_kind, recorded


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PassPaths]:
    found = PassPaths(tmp_path)
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(found.recorder_folder))
    monkeypatch.setenv("HVDPROF_LINES", "200")
    monkeypatch.setattr(PROCESS, "session", Session())
    monkeypatch.setattr(PARENT, "folder", None)
    yield found
    collect.stop()


def augment() -> None:
    time.sleep(0.004)


def compute() -> None:
    time.sleep(0.008)


def train(num_steps: int = 40) -> None:
    for _ in range(num_steps):
        with collect.step(samples=1):
            with collect.phase("data"):
                augment()
            with collect.phase("forward"):
                compute()


def lines_of(path: Path) -> list[Any]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def samples_by_phase(lines: list[Any]) -> Counter[tuple[str, str]]:
    """Samples by phase and function."""
    found: Counter[tuple[str, str]] = Counter()
    names: dict[int, str] = {}
    for line in of_kind(lines, "lines"):
        names |= {place[0]: place[3] for place in line["places"]}
        for phase, place, number in line["counts"]:
            found[line["phases"][phase][0], names.get(place, "")] += number
    return found


@pytest.mark.parametrize("light", ["0", "1"])
def test_the_lines_of_each_phase_are_sampled(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch, light: str
) -> None:
    monkeypatch.setenv("HVDPROF_LIGHT", light)
    collect.start(rank=1, size=2, local_rank=1, local_size=2)
    train()
    collect.stop()
    lines = lines_of(paths.lines_file(1))
    found = samples_by_phase(lines)

    assert (lines[0]["kind"], lines[0]["rank"], lines[0]["process"]) == ("sampling", 1, "main")
    own = found["data", "augment"] + found["forward", "compute"]
    assert own > 0.7 * sum(found.values()) > 15
    assert found["data", "compute"] + found["forward", "augment"] <= 0.1 * own
    steps = [line for line in of_kind(lines, "lines") if line["step"] >= 0]
    assert sum(line["steps"] for line in steps) == 40
    assert of_kind(recorded(paths.recorder_file(1)), "problem") == []
    times = [{name: ns for name, _, ns, _, _ in line["phases"]} for line in steps]
    assert sum(one["forward"] for one in times) >= 40 * 8_000_000
    assert "hvdprof lines" not in [thread.name for thread in threading.enumerate()]


def test_a_training_in_another_thread_is_followed(paths: PassPaths) -> None:
    collect.start(rank=0, size=1, local_rank=0, local_size=1)
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    collect.stop()
    found = samples_by_phase(lines_of(paths.lines_file(0)))

    assert found["forward", "compute"] > 5


def test_nothing_is_sampled_where_that_is_asked_for(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVDPROF_LINES", "0")
    collect.start(rank=0, size=1, local_rank=0, local_size=1)
    train(3)
    assert "hvdprof lines" not in [thread.name for thread in threading.enumerate()]
    collect.stop()

    assert not paths.lines_file(0).exists()


@pytest.mark.parametrize("case", ["damaged", "taken"])
def test_where_it_cannot_begin_the_recording_does(
    paths: PassPaths,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    if case == "damaged":
        monkeypatch.setenv("HVDPROF_LINES", "often")
    else:
        paths.lines_file(0).parent.mkdir(parents=True)
        paths.lines_file(0).touch()
    collect.start(rank=0, size=1, local_rank=0, local_size=1)
    train(3)
    collect.stop()

    assert "hvdprof recorder: no lines are sampled: " in capsys.readouterr().err
    assert recorded(paths.recorder_file(0))[-1]["kind"] == "end"


def test_a_rank_that_fails_leaves_its_samples(paths: PassPaths) -> None:
    collect.start(rank=0, size=1, local_rank=0, local_size=1)
    train(20)
    PROCESS.session.give_up(OSError("disk full"))
    train(2)

    found = samples_by_phase(lines_of(paths.lines_file(0)))
    assert found["forward", "compute"] > 3


def test_a_full_disk_ends_the_sampling_with_a_note_in_the_recording(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hvdprof.collect.lines.line_window import LineFile

    def full(*_: object, **__: object) -> bool:
        raise OSError(28, "No space left on device")

    collect.start(rank=0, size=1, local_rank=0, local_size=1)
    monkeypatch.setattr(LineFile, "write", full)
    train(400)
    collect.stop()

    lines = recorded(paths.recorder_file(0))
    (problem,) = of_kind(lines, "problem")
    assert problem["message"].startswith("lines are no longer sampled: OSError")
    assert (len(of_kind(lines, "step")), lines[-1]["kind"]) == (400, "end")


def test_the_bounds_of_a_rank_and_its_workers_are_half_a_megabyte_in_an_hour() -> None:
    workers = MOST_WORKERS * (OF_WORKER + OF_WORKER_PER_HOUR)

    assert BYTES_AT_ONCE + BYTES_PER_HOUR + workers <= 500_000
