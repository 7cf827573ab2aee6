"""What users who do not know hvdprof type, and what they read first."""

import sys
from pathlib import Path

import pytest

from benchmarks.strangers.session import (
    Command,
    WrittenFile,
    environment_of,
    parsed,
    play,
    sessions,
)
from tests.builders.recorded_runs import unpacked

REAL = {"ml_engineer", "ddp_user"}
"""Sessions that train on real ranks."""


def played(name: str, folder: Path, **variables: str) -> None:
    environment = environment_of(Path(sys.executable).parent) | variables
    wrong = [
        f"$ {one.command.text}: {text}\n{one.stdout}{one.stderr}"
        for one in play(name, folder, environment)
        for text in one.wrong
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.horovod
@pytest.mark.warm
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(REAL))
def test_a_session_with_a_training(name: str, tmp_path: Path) -> None:
    played(name, tmp_path)


@pytest.mark.slow
def test_a_session_with_files_of_others(tmp_path: Path) -> None:
    played("support_engineer", tmp_path)


@pytest.mark.slow
def test_a_session_in_python(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    for name, recorded in (("before", "ddp-slow-forward"), ("after", "ddp-slow-backward")):
        unpacked(recorded, tmp_path / "packed").rename(runs / name)
    (tmp_path / "work").mkdir()
    played("notebook_user", tmp_path / "work", RUNS=str(runs))


def test_every_session_is_played() -> None:
    assert set(sessions()) == REAL | {"support_engineer", "notebook_user"}


def test_a_session_is_files_and_commands() -> None:
    first, second = parsed("# why\nfile a.py\n    x = 1\n\n$ run a\nsays b c\nnever d\nexit 3\n")
    assert first == WrittenFile("a.py", ["x = 1", ""])
    assert second == Command("run a", ["b c"], ["d"], 3)
    with pytest.raises(ValueError, match="line 1 is no step"):
        parsed("says something\n")


def test_what_does_not_come_back_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.strangers.session.FOLDER", tmp_path)
    text = "$ echo one; exit 2\nsays two\nnever one\n\n$ echo one\nsays one\nexit 0\n"
    (tmp_path / "of_a_test.session").write_text(text, encoding="utf-8")
    environment = environment_of(Path(sys.executable).parent)
    wrong, right = play("of_a_test", tmp_path, environment)
    assert len(wrong.wrong) == 3
    assert right.wrong == ()
