"""The automatic recording on real torch, with a Horovod that has one rank and no network."""

import gc
import os
import sys
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader

from hvdprof import collect
from hvdprof.collect.auto.autorecord import AutoRecorder
from tests.builders.local_script import BATCH, Script
from tests.builders.recorded import blocked_ns, of_kind, phase_ns, recorded, steps_of

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("steps_written_singly")]


@pytest.fixture
def script(folder):
    script = Script()
    script.wrap()
    yield script
    script.recorder.end()


def test_an_unmodified_script_is_recorded(script, folder):
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
    assert "the training continues" in capsys.readouterr().err
    assert len(steps_of(lines, "main")) == 5
    after = script.model.parameters()
    assert all((one != other).any() for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["fetching", "backward", "step_ended", "_begin"])
def test_an_exception_of_the_tracker_never_reaches_the_training(script, monkeypatch, name):
    def fail(*_):
        raise RuntimeError("on purpose")

    script.train()
    before = [one.detach().clone() for one in script.model.parameters()]
    inputs, labels = torch.ones(2, 3), torch.ones(2, dtype=torch.int64)
    script.loader = DataLoader([0, 1, 2], None, collate_fn=lambda _: [inputs, labels])
    monkeypatch.setattr(type(script.recorder.tracker), name, fail)
    script.train()

    after = script.model.parameters()
    assert all((one != other).any() for one, other in zip(before, after, strict=True))


def test_an_exception_around_a_scaled_update_never_reaches_the_training(script, monkeypatch):
    def fail(*_):
        raise RuntimeError("on purpose")

    script.train()
    monkeypatch.setattr(collect, "phase", fail)
    with script.recorder.scaled_update(object()):
        updated = True

    assert updated


def test_a_script_that_raises_leaves_an_open_segment(script, folder, monkeypatch):
    script.train()
    monkeypatch.setattr(sys, "last_value", ValueError("on purpose"), raising=False)
    script.recorder.end()

    assert of_kind(script.lines(folder), "segment_end") == []


def test_a_forked_worker_records_nothing(folder, monkeypatch):
    # This process takes itself for the worker, and would not end the thread that samples.
    monkeypatch.setenv("HVDPROF_LINES", "0")
    script = Script()
    script.wrap()
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


def test_a_model_that_the_script_drops_is_freed_while_it_is_recorded(folder):
    script = Script()
    script.wrap()
    script.train()
    weight = weakref.ref(script.model[0].weight)

    del script.model, script.optimizer
    gc.collect()

    assert weight() is None
    script.hvd.shutdown()
    assert len(steps_of(script.lines(folder), "main")) == 5


def test_a_script_that_continues_with_another_model_is_warned(script, folder, capsys):
    script.train()
    for _ in range(2):
        script.model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
        script.wrap()
        script.train()
    script.hvd.shutdown()

    lines = script.lines(folder)
    assert len(steps_of(lines, "main")) == 5
    (problem,) = of_kind(lines, "problem")
    assert "made after the first steps is not recorded" in problem["message"]
    assert capsys.readouterr().err.count("made after the first steps") == 1


def test_a_script_that_trains_in_another_thread_than_it_began_in(script, folder):
    thread = threading.Thread(target=script.train)
    thread.start()
    thread.join()
    script.hvd.shutdown()

    steps = steps_of(script.lines(folder), "main")
    # The first one is seen when it ends: by then it is known where the script trains.
    for step in steps[1:]:
        assert step["samples"] == BATCH
        for part in ("data", "forward", "backward", "optimizer"):
            assert phase_ns(step, part) > 0, part


def test_a_model_that_moves_after_its_optimizer_was_made_is_reported(script, folder, monkeypatch):
    # To a GPU, which is not here: as if the optimizer had been made elsewhere.
    monkeypatch.setattr(script.recorder, "_device", "meta")
    script.train()
    script.hvd.shutdown()

    (problem,) = of_kind(script.lines(folder), "problem")
    assert "moved from meta to cpu after its optimizer was made" in problem["message"]


def test_a_closure_that_computes_the_whole_step_is_recorded_within_the_optimizer(script, folder):
    # As PyTorch Lightning calls optimizers; one that has raised is not a step.
    criterion = torch.nn.CrossEntropyLoss()
    for inputs, labels in script.loader:

        def closure(inputs=inputs, labels=labels):
            script.optimizer.zero_grad()
            loss = criterion(script.model(inputs), labels)
            loss.backward()
            return loss

        def failing():
            raise FloatingPointError("loss is not finite")

        with pytest.raises(FloatingPointError):
            script.optimizer.step(failing)
        assert script.optimizer.step(closure).shape == ()
    script.hvd.shutdown()

    lines = script.lines(folder)
    steps = steps_of(lines, "main")
    assert [step["step"] for step in steps] == [0, 1, 2, 3, 4]
    assert of_kind(lines, "problem") == []
    for step in steps[1:]:
        ends = [begin + length for _, begin, length in step["phases"]]
        begins = [begin for _, begin, _ in step["phases"]]
        assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
        names = [name for name, _, length in step["phases"]]
        assert names[-5:] == ["optimizer", "forward", "optimizer", "backward", "optimizer"]


def test_inputs_of_unknown_length_end_the_recording_and_not_the_training(folder, capsys):
    class Odd(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, inputs):
            return self.model(inputs[0])

    script = Script()
    script.model = Odd(script.model)  # type: ignore[assignment]
    script.wrap()

    class Inputs(list):
        @property
        def shape(self):
            raise RuntimeError("no shape today")

    script.train([(Inputs([torch.zeros(2, 3)]), torch.zeros(2, dtype=torch.int64))])
    script.hvd.shutdown()

    assert "no shape today" in of_kind(script.lines(folder), "problem")[0]["message"]
    assert "the training continues" in capsys.readouterr().err


def test_arguments_and_results_of_horovods_calls_pass(script):
    script.hvd.shutdown()
    own = AutoRecorder(script.hvd, script.recorder._settings)
    given = []

    def call(*args, **kwargs):
        given.append((args, kwargs))
        return "result"

    for replaced in (own.ending(call), own._blocked("allreduce", call)):
        assert replaced(1, name="two") == "result"
    assert given == [((1,), {"name": "two"})] * 2


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818
    """Named as Horovod's."""


class HorovodInternalError(RuntimeError):
    """Named as Horovod's."""


class State:
    """As Horovod's: a commit asks whether hosts have changed, and may raise then."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def commit(self):
        self.check_host_updates()

    def check_host_updates(self):
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error


def run_elastic(func):
    def wrapper(state):
        while True:
            try:
                return func(state)
            except (HostsUpdatedInterrupt, HorovodInternalError):
                continue

    return wrapper


@pytest.fixture
def elastic(folder, monkeypatch):
    """The script of an elastic job; its sessions lie beside the folder of the launch."""
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(folder.parent / "launch" / "recorder"))
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    for name in ("commit", "check_host_updates"):
        monkeypatch.setattr(State, name, vars(State)[name])

    def made(**changes):
        part = SimpleNamespace(
            run=run_elastic, init=lambda: None, shutdown=lambda: None, TorchState=State
        )
        return Script(elastic=part, **changes)

    return made


def session(folder, number):
    return recorded(folder.parent / f"launch-session{number}" / "recorder" / "rank-0.jsonl")


def test_every_session_of_an_elastic_job_is_a_recording_of_its_own(elastic, folder):
    script = elastic()
    script.wrap()

    @script.hvd.elastic.run
    def train(state):
        script.train()
        state.commit()

    script.train()  # Before any session: not recorded, and the script does not feel it.
    train(State(HostsUpdatedInterrupt(), HorovodInternalError()))
    script.recorder.end()

    for number, why in enumerate(("hosts-updated", "lost-peer", "finished"), start=1):
        lines = session(folder, number)
        (said,), (end,) = of_kind(lines, "session"), of_kind(lines, "session_end")
        assert (said["number"], end["why"]) == (number, why)
        assert (end["num_steps"], end["num_committed"]) == (5, 5)
        steps = steps_of(lines, "main")
        assert [step["step"] for step in steps] == [0, 1, 2, 3, 4]
        assert [step["warmup"] for step in steps] == [True, False, False, False, False]
        assert all(phase_ns(step, "forward") > 0 for step in steps)
        # Clocks are compared again, unless no peer is left to compare with.
        assert len(of_kind(lines, "clock")) == (1 if why == "lost-peer" else 2)
        assert of_kind(lines, "end")


def test_a_model_that_is_made_within_the_function_is_watched_anew(elastic, folder):
    script = elastic()

    @script.hvd.elastic.run
    def train(state):
        script.model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
        script.wrap()
        script.train()
        state.commit()

    train(State(HostsUpdatedInterrupt()))

    for number in (1, 2):
        lines = session(folder, number)
        (segment,) = of_kind(lines, "segment")
        assert len(segment["tensors"]) == 4
        assert all(phase_ns(step, "forward") > 0 for step in steps_of(lines, "main"))
        assert min(steps_of(lines, "main")[0]["ready"]) > 0


def test_a_session_that_raises_is_left_as_it_is(elastic, folder):
    script = elastic()
    script.wrap()

    @script.hvd.elastic.run
    def train(state):
        script.train()
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        train(State())

    lines = session(folder, 1)
    assert of_kind(lines, "session_end")[0]["why"] == "raised"
    assert of_kind(lines, "end") == []


def test_steps_of_all_sessions_count_for_the_end_of_the_script(elastic, folder):
    script = elastic(num_steps=7)
    script.wrap()

    @script.hvd.elastic.run
    def train(state):
        script.train()
        state.commit()

    with pytest.raises(SystemExit):
        train(State(HostsUpdatedInterrupt()))

    assert [len(steps_of(session(folder, number), "main")) for number in (1, 2)] == [5, 3]
    assert of_kind(session(folder, 2), "session_end")[0]["why"] == "finished"
