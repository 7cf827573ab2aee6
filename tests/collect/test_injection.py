"""Faults that happen in a rank, and what its recording shows of them."""

import itertools
import time

import pytest

from hvdprof import collect
from hvdprof.collect import injection
from tests.builders.fake_torch import FakeHorovodOptimizer, FakeModel, FakeParameter, FakeTime
from tests.builders.recorded import of_kind, phase_ns, recorded, steps_of

SLEEP_NS = 20_000_000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "recorder"
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(path))
    yield path
    collect.stop()


def train(num_steps: int = 7) -> FakeModel:
    names = ("a", "b", "c", "d")
    model = FakeModel(**{name: FakeParameter(3) for name in names})
    collect.start(rank=0, size=1, local_rank=0, local_size=1)
    optimizer = FakeHorovodOptimizer(model, FakeTime())
    with collect.segment("one"):
        collect.watch(model, optimizer)
        for _ in range(num_steps):
            with collect.step(samples=4):
                with collect.phase("data"):
                    time.sleep(0.001)
                with collect.phase("forward"):
                    pass
                with collect.phase("backward"):
                    for name in reversed(names):
                        model.parameters[name].accumulate()
                optimizer.step()
    collect.stop()
    return model


@pytest.mark.timing
@pytest.mark.parametrize("phase", ["data", "forward", "backward", "optimizer"])
@pytest.mark.parametrize("kind", ["sleep", "cpu"])
def test_a_fault_lengthens_its_own_phase_alone(folder, monkeypatch, phase, kind):
    monkeypatch.setenv("HVDPROF_FAULTS", f"{kind}:phase={phase},rank=0,amount=20ms")
    train()
    steps = steps_of(recorded(folder / "rank-0.jsonl"), "one")
    assert all(step["dur_ns"] < SLEEP_NS for step in steps[:5])
    for step in steps[5:]:
        lengths = {
            name: phase_ns(step, name) for name in ("data", "forward", "backward", "optimizer")
        }
        assert lengths[phase] >= SLEEP_NS
        # Once, also where Horovod lets the hooks of the optimizer fire twice.
        assert step["dur_ns"] < 2 * SLEEP_NS + 10_000_000
        assert max(lengths, key=lengths.__getitem__) == phase


def test_backward_is_late_from_its_middle_on(folder, monkeypatch):
    monkeypatch.setenv("HVDPROF_FAULTS", "sleep:phase=backward,amount=20ms")
    train()
    last = steps_of(recorded(folder / "rank-0.jsonl"), "one")[-1]
    a, b, c, d = last["ready"]
    assert b - c >= SLEEP_NS
    assert max(c - d, a - b) < SLEEP_NS


def test_a_pause_lies_between_steps(folder, monkeypatch):
    monkeypatch.setenv("HVDPROF_FAULTS", "pause:amount=20ms,every=2")
    train(8)
    steps = steps_of(recorded(folder / "rank-0.jsonl"), "one")
    gaps = [
        after["start_ns"] - before["start_ns"] - before["dur_ns"]
        for before, after in itertools.pairwise(steps)
    ]
    assert [gap >= SLEEP_NS for gap in gaps] == [False] * 4 + [True, False, True]


@pytest.fixture
def injected(monkeypatch):
    """The faults that happen, none of which takes time."""
    faults = []
    monkeypatch.setattr(injection, "_pass_time", lambda *fault: faults.append(fault))
    return faults


def test_a_fault_comes_after_the_clean_steps(folder, monkeypatch, injected):
    monkeypatch.setenv("HVDPROF_FAULTS", "sleep:phase=data,rank=0,amount=20ms")
    train()
    assert injected == [("sleep", SLEEP_NS)] * 2


def test_the_recording_says_it_and_other_ranks_stay_clean(folder, monkeypatch, injected):
    text = "sleep:phase=data,rank=1,amount=20ms"
    monkeypatch.setenv("HVDPROF_FAULTS", text)
    model = train()
    lines = recorded(folder / "rank-0.jsonl")
    assert of_kind(lines, "problem")[0]["message"] == f"faults were injected on purpose: {text}"
    assert injected == []
    assert all(parameter.hooks == [] for parameter in model.parameters.values())


def test_without_a_recorder_too(tmp_path, monkeypatch):
    monkeypatch.delenv("HVDPROF_RECORDER_DIR", raising=False)
    monkeypatch.setenv("HVDPROF_FAULTS", "sleep:phase=data,amount=20ms")
    begin_ns = time.monotonic_ns()
    train()
    assert time.monotonic_ns() - begin_ns >= 2 * SLEEP_NS


def test_an_unknown_fault_is_reported_and_nothing_happens(folder, monkeypatch, capsys, injected):
    monkeypatch.setenv("HVDPROF_FAULTS", "crash:amount=20ms")
    train()
    assert "no faults are injected" in capsys.readouterr().err
    assert len(steps_of(recorded(folder / "rank-0.jsonl"), "one")) == 7
    assert injected == []
