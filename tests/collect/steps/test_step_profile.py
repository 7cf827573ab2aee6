"""Three steps under a profiler; after a failure the training continues."""

import sys
import threading
import time
import types
from pathlib import Path

import pytest

from hvdprof.collect.steps import step_profile
from hvdprof.collect.steps.step_profile import StepProfile


class Profiler:
    """Stands in for ``torch.profiler``: writes down what is called, and by which thread."""

    def __init__(self, content="{}", problem=""):
        self.calls, self.content, self.problem = [], content, problem
        self.ProfilerAction = types.SimpleNamespace(RECORD="record")

    def profile(self, schedule):
        assert schedule(0) == "record"
        return self

    def start(self):
        if self.problem:
            raise RuntimeError(self.problem)
        self.calls.append(("start", threading.get_ident()))

    def step(self):
        self.calls.append(("step", threading.get_ident()))

    def stop(self):
        self.calls.append(("stop", threading.get_ident()))

    def export_chrome_trace(self, path):
        Path(path).write_text(self.content)


def _torch(monkeypatch, profiler, *, is_busy=False):
    autograd = types.SimpleNamespace(_profiler_enabled=lambda: is_busy)
    torch = types.SimpleNamespace(profiler=profiler, autograd=autograd)
    monkeypatch.setitem(sys.modules, "torch", torch)


def _run(profile, steps):
    return [step for step in steps if profile.begins(step)]


@pytest.fixture
def problems():
    return []


def test_three_steps_from_the_first_on_and_the_one_in_which_it_stops_do_not_count(
    tmp_path, monkeypatch, problems
):
    profiler = Profiler()
    _torch(monkeypatch, profiler)
    path = tmp_path / "event-0-rank-1.pt.trace.json.gz"
    profile = StepProfile(path, 4, problems.append)
    assert _run(profile, range(20)) == [4, 5, 6, 7]
    profile.end()
    own = threading.get_ident()
    assert profiler.calls == [(name, own) for name in ("start", "step", "step", "stop")]
    assert path.read_text() == "{}"
    assert path.stat().st_mode & 0o077 == 0
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert problems == []


def test_a_first_step_that_has_passed_is_the_next_one(tmp_path, monkeypatch, problems):
    _torch(monkeypatch, Profiler())
    profile = StepProfile(tmp_path / "t.json.gz", 4, problems.append)
    assert _run(profile, range(9, 20)) == [9, 10, 11, 12]
    profile.end()


@pytest.mark.parametrize(
    ("profiler", "is_busy", "why"),
    [
        (Profiler(problem="no CUPTI"), False, "no CUPTI"),
        (Profiler(), True, "another profiler records"),
    ],
)
def test_a_profiler_that_does_not_start_is_a_problem_and_nothing_else(
    tmp_path, monkeypatch, problems, profiler, is_busy, why
):
    _torch(monkeypatch, profiler, is_busy=is_busy)
    profile = StepProfile(tmp_path / "t.json.gz", 0, problems.append)
    assert _run(profile, range(9)) == [0]
    assert problems == [f"no steps are profiled: {why}"]


def test_without_torch_it_says_so(tmp_path, monkeypatch, problems):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    profile = StepProfile(tmp_path / "t.json.gz", 0, problems.append)
    assert _run(profile, range(9)) == [0]
    assert problems == ["no steps are profiled: the script does not use torch"]


def test_a_recording_that_ends_before_it_drops_it(tmp_path, monkeypatch, problems):
    profiler = Profiler()
    _torch(monkeypatch, profiler)
    profile = StepProfile(tmp_path / "t.json.gz", 0, problems.append)
    _run(profile, range(2))
    profile.end()
    assert profiler.calls[-1][0] == "stop"
    assert problems == ["no steps are profiled: the recording has ended"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_too_large_is_removed(tmp_path, monkeypatch, problems):
    monkeypatch.setattr(step_profile, "MOST_BYTES", 10)
    _torch(monkeypatch, Profiler(content="x" * 11))
    profile = StepProfile(tmp_path / "t.json.gz", 0, problems.append)
    _run(profile, range(9))
    end_s = time.monotonic() + 20
    while not problems and time.monotonic() < end_s:
        time.sleep(0.01)
    profile.end()
    assert problems == ["no steps are profiled: their file is too large (11 B)"]
    assert list(tmp_path.iterdir()) == []
