"""The automatic recording on real torch, with a Horovod that has one rank and no network."""

import os
import sys
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hvdprof import collect
from hvdprof.collect.auto_settings import AutoSettings
from hvdprof.collect.autorecord import AutoRecorder
from hvdprof.collect.session import Session
from tests.builders.recorded import blocked_ns, of_kind, phase_ns, recorded, steps_of

BATCH = 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "recorder"
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(path))
    # Brackets stay where they are for the life of a process: here only for that of a test.
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    monkeypatch.setattr(iterator, "__next__", iterator.__next__)
    monkeypatch.setattr(torch.autograd, "backward", torch.autograd.backward)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(collect, "_session", Session())
    monkeypatch.setattr(collect, "_marked_step", None)
    yield path
    collect.stop()


class Script:
    """A script with a model, and what it may do with it."""

    def __init__(self, **changes):
        settings = {
            "num_warmup_steps": 1,
            "num_steps": None,
            "batch_size": None,
            "timeline": "",
            "num_timeline_steps": 5,
        }
        self.hvd = SimpleNamespace(
            DistributedOptimizer=lambda optimizer: optimizer,
            allreduce=lambda tensor, name=None: tensor,
            shutdown=lambda: None,
        )
        self.recorder = AutoRecorder(self.hvd, AutoSettings(**settings | changes))
        self.recorder.bracket_horovod()
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
        data = TensorDataset(torch.zeros(5 * BATCH, 3), torch.zeros(5 * BATCH, dtype=torch.int64))
        self.loader = DataLoader(data, BATCH)

    def wrap(self):
        plain = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.optimizer = self.hvd.DistributedOptimizer(plain)

    def train(self, batches=None):
        for inputs, labels in batches if batches is not None else self.loader:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(inputs), labels)
            loss.backward()
            self.optimizer.step()
            self.hvd.allreduce(loss.detach(), name="loss")

    def lines(self, folder):
        return recorded(folder / "rank-0.jsonl")


@pytest.fixture
def script(folder):
    script = Script()
    script.wrap()
    yield script
    script.recorder.end()


def test_a_script_is_recorded_without_a_word_of_its_own(script, folder):
    script.train()
    script.hvd.shutdown()

    lines = script.lines(folder)
    steps = steps_of(lines, "main")
    assert [step["warmup"] for step in steps] == [True, False, False, False, False]
    assert {step["samples"] for step in steps} == {BATCH}
    for part in ("data", "forward", "backward", "optimizer"):
        assert all(phase_ns(step, part) > 0 for step in steps), part
    # The loss is averaged after the update: in the step that follows.
    assert [blocked_ns(step) > 0 for step in steps] == [False, True, True, True, True]
    assert [line["kind"] for line in lines[-3:]] == ["segment_end", "clock", "end"]


def test_batches_that_are_made_by_hand_count_by_the_input_of_the_model(script, folder):
    script.train([(torch.zeros(7, 3), torch.zeros(7, dtype=torch.int64))] * 3)

    assert [step["samples"] for step in steps_of(script.lines(folder), "main")] == [7, 7, 7]


def test_after_the_end_a_script_trains_on_unrecorded(script, folder):
    script.train()
    script.hvd.shutdown()
    script.train()

    assert len(steps_of(script.lines(folder), "main")) == 5


def test_a_failure_ends_the_recording_and_not_the_training(script, folder, capsys):
    class Odd(list):
        @property
        def shape(self):
            raise RuntimeError("no shape today")

    script.train()
    before = [one.detach().clone() for one in script.model.parameters()]
    inputs, labels = torch.ones(2, 3), torch.ones(2, dtype=torch.int64)
    script.loader = DataLoader([0, 1, 2], None, collate_fn=lambda _: Odd([inputs, labels]))
    script.train()

    lines = script.lines(folder)
    assert "no shape today" in of_kind(lines, "problem")[0]["message"]
    assert "the training goes on" in capsys.readouterr().err
    assert len(steps_of(lines, "main")) == 5
    after = script.model.parameters()
    assert all((one != other).any() for one, other in zip(before, after, strict=True))


def test_a_script_that_raises_leaves_an_open_segment(script, folder, capsys):
    script.train()
    sys.excepthook(ValueError, ValueError("on purpose"), None)
    script.recorder.end()

    assert of_kind(script.lines(folder), "segment_end") == []
    assert "on purpose" in capsys.readouterr().err


def test_a_forked_worker_records_nothing(script, folder, monkeypatch):
    script.train()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    list(script.loader)
    script.recorder.end()

    lines = script.lines(folder)
    assert len(steps_of(lines, "main")) == 5
    assert of_kind(lines, "end") == []


def test_a_script_that_records_itself_is_left_to_do_so(folder):
    script = Script()
    collect.start()
    script.wrap()
    with collect.step(samples=1):
        script.train()

    (step,) = steps_of(script.lines(folder), "main")
    assert step["samples"] == 1
    assert {name for name, _, _ in step["phases"]} == {"collective"}


def test_steps_that_the_script_marks_win_over_those_that_are_found(script, folder):
    collect.start()
    collect.watch(script.model, script.optimizer)
    for _ in range(3):
        with collect.step(samples=7), collect.segment("mine"), collect.phase("own"):
            script.train()
    script.hvd.shutdown()

    lines = script.lines(folder)
    steps = steps_of(lines, "main")
    assert [step["warmup"] for step in steps] == [True, False, False]
    assert {step["samples"] for step in steps} == {7}
    for part in ("own", "data", "forward", "backward", "optimizer"):
        assert all(phase_ns(step, part) > 0 for step in steps), part
    (segment,) = of_kind(lines, "segment")
    assert len(segment["tensors"]) == 4
    assert of_kind(lines, "problem") == []


def test_gradients_of_a_second_optimizer_count_too(script, folder):
    other = torch.nn.Linear(3, 1)
    script.hvd.DistributedOptimizer(torch.optim.SGD(other.parameters(), lr=0.1))
    script.train()

    (segment,) = of_kind(script.lines(folder), "segment")
    assert len(segment["tensors"]) == 4 + 2


def test_the_script_is_ended_after_its_steps_also_where_nothing_could_be_recorded(
    folder, monkeypatch, capsys
):
    def fail(*_, **__):
        raise OSError("no device")

    monkeypatch.setattr(collect, "start", fail)
    script = Script(num_steps=2)
    script.wrap()

    with pytest.raises(SystemExit):
        script.train()
    assert "no device" in capsys.readouterr().err
