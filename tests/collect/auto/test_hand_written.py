"""Loops without a distributed optimizer, and phases of loops of every kind."""

import queue
import threading
import time

import pytest
import torch

from hvdprof import collect
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto.loop_input import interpreter_monitoring
from hvdprof.rundir.launch_format import AUTORECORD
from tests.builders.local_script import BATCH, Script
from tests.builders.recorded import blocked_ns, of_kind, phase_ns, steps_of

pytestmark = pytest.mark.torch

ALL = ("data", "forward", "backward", "optimizer")


class ByHand(Script):
    """A script that reduces its gradients itself."""

    def __init__(self, **changes):
        super().__init__(**changes)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def reduce(self):
        for parameter in self.model.parameters():
            parameter.grad = self.hvd.allreduce(parameter.grad)

    def compute(self, inputs, labels):
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(inputs), labels).backward()

    def train(self, batches=None):
        for inputs, labels in batches if batches is not None else self.loader:
            self.compute(inputs, labels)
            self.reduce()
            self.optimizer.step()


@pytest.fixture
def script(folder):
    script = ByHand()
    yield script
    script.recorder.end()


def steps_with(script, folder, *parts):
    """The recorded steps, each of which must have these phases."""
    script.hvd.shutdown()
    lines = script.lines(folder)
    assert of_kind(lines, "problem") == []
    steps = steps_of(lines, "main")
    for step in steps:
        for part in parts:
            assert phase_ns(step, part) > 0, part
    return steps


def test_a_hand_written_loop_is_recorded_from_its_first_update_on(script, folder):
    script.train()
    script.train()

    steps = steps_with(script, folder, *ALL)
    # The first update shows that the script trains; it counts as warm-up.
    assert len(steps) == 10 - 1
    assert not any(step["warmup"] for step in steps)
    assert {step["samples"] for step in steps} == {BATCH}
    for step in steps:
        assert len(step["blocked"]) == 4
        # At the begin of an epoch its loader ends, and another one begins.
        names = [name for name, _, _ in step["phases"] if name not in ("data", "before_update")]
        assert names == ["forward", "backward", *4 * ["collective"], "optimizer"]
        # A step ends with its update.
        _, begin, length = step["phases"][-1]
        assert begin + length <= step["dur_ns"]


@pytest.mark.parametrize("is_reduced_first", [False, True])
def test_time_between_backward_and_the_update_is_a_phase(script, folder, is_reduced_first):
    """As norms of gradients or a GradScaler take it, before or after the reduction."""
    slept_s = 0.02

    def reduce_and_clip():
        if is_reduced_first:
            ByHand.reduce(script)
        time.sleep(slept_s)
        if not is_reduced_first:
            ByHand.reduce(script)

    script.reduce = reduce_and_clip
    script.train()

    for step in steps_with(script, folder, *ALL):
        assert phase_ns(step, "before_update") >= slept_s * 1e9


def test_all_updates_count_for_the_end_of_the_script(folder):
    script = ByHand(num_steps=6)
    with pytest.raises(SystemExit):
        for _ in range(3):
            script.train()

    # One of seven is warm-up, the first.
    assert len(steps_with(script, folder)) == 6


def test_training_without_a_reduction_is_none_of_several_ranks(script, folder):
    script.reduce = lambda: None
    script.train()
    script.hvd.allreduce(torch.zeros(1))
    script.hvd.broadcast_optimizer_state(script.optimizer)

    assert not (folder / "rank-0.jsonl").exists()


def test_one_rank_alone_has_nothing_to_reduce(folder):
    script = ByHand(size=1)
    script.reduce = lambda: None
    script.hvd.broadcast_optimizer_state(script.optimizer)
    script.train()

    assert len(steps_with(script, folder, *ALL)) == 4


def test_a_distributed_optimizer_that_comes_first_ends_the_steps(folder):
    script = ByHand()
    plain = script.optimizer
    script.wrap()
    script.train()
    script.reduce()
    plain.step()

    assert len(steps_with(script, folder, *ALL)) == 5


def test_all_micro_batches_of_a_step_count(script, folder):
    batches = list(script.loader)
    for _ in range(3):
        for inputs, labels in batches:
            torch.nn.functional.cross_entropy(script.model(inputs), labels).backward()
        script.reduce()
        script.optimizer.step()
        script.optimizer.zero_grad()

    for step in steps_with(script, folder, "forward", "backward", "optimizer"):
        names = [name for name, _, _ in step["phases"]]
        assert names.count("forward") == names.count("backward") == len(batches)


def test_a_second_optimizer_and_its_model_have_phases_but_end_no_step(script, folder):
    other = torch.nn.Linear(3, 3)
    second = torch.optim.Adam(other.parameters())
    for _ in range(2):
        for inputs, labels in script.loader:
            script.compute(other(inputs), labels)
            script.reduce()
            script.optimizer.step()
            other(inputs).sum().backward()
            script.hvd.allreduce(other.weight.grad)
            second.step()

    steps = steps_with(script, folder, *ALL)
    assert len(steps) == 9
    for step in steps[3:]:
        names = [name for name, _, _ in step["phases"]]
        assert names.count("optimizer") == 2
        assert names.count("forward") == 3


def test_the_loss_belongs_to_the_forward_pass(script, folder):
    # 20 ms between the call of the model and backward.
    pause = threading.Event()
    for inputs, labels in list(script.loader):
        script.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(script.model(inputs), labels)
        pause.wait(0.02)
        loss.backward()
        script.reduce()
        pause.wait(0.01)
        script.optimizer.step()

    for step in steps_with(script, folder, "backward", "optimizer"):
        assert phase_ns(step, "forward") > 20e6
        assert phase_ns(step, "optimizer") < 10e6


def test_functions_instead_of_modules_begin_after_their_data(folder):
    script = ByHand()
    weight = torch.nn.Parameter(torch.ones(3, 2))
    script.optimizer = torch.optim.SGD([weight], lr=0.1)
    pause = threading.Event()
    for inputs, labels in script.loader:
        pause.wait(0.02)
        torch.nn.functional.cross_entropy(inputs @ weight, labels).backward()
        script.hvd.allreduce(weight.grad)
        script.optimizer.step()

    for step in steps_with(script, folder, *ALL):
        assert phase_ns(step, "forward") > 20e6


def test_gradients_by_functions_count_as_backward_but_not_within_a_model(script, folder):
    class Forces(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, inputs):
            inputs = inputs.clone().requires_grad_()
            energy = self.model(inputs).sum()
            return torch.autograd.grad(energy, inputs, create_graph=True)[0]

    forces = Forces(script.model)
    parameters = list(script.model.parameters())[::2]
    for inputs, _ in script.loader:
        loss = forces(inputs).square().sum()
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters), strict=True
        ):
            parameter.grad = script.hvd.allreduce(gradient)
        script.optimizer.step()

    for step in steps_with(script, folder, *ALL):
        names = [name for name, _, _ in step["phases"] if name != "before_update"]
        assert names == ["data", "forward", "backward", *2 * ["collective"], "optimizer"]


def test_an_update_that_a_scaler_skips_ends_its_step(script, folder):
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    for number, (inputs, labels) in enumerate([*script.loader, *script.loader]):
        script.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(script.model(inputs), labels)
        scaler.scale(loss * (float("inf") if number % 3 == 2 else 1)).backward()
        script.reduce()
        scaler.step(script.optimizer)
        scaler.update()

    steps = steps_with(script, folder, "forward", "backward", "optimizer")
    assert len(steps) == 9
    assert {step["samples"] for step in steps} == {BATCH}


def test_batches_of_a_thread_come_through_its_queue(script, folder):
    waiting: queue.Queue = queue.Queue(maxsize=2)

    def fetch():
        for batch in script.loader:
            waiting.put(batch)
        waiting.put(None)

    thread = threading.Thread(target=fetch)
    thread.start()
    script.train(iter(lambda: waiting.get(), None))
    thread.join()

    steps = steps_with(script, folder, *ALL)
    assert {step["samples"] for step in steps} == {BATCH}


def test_steps_that_a_hand_written_loop_marks_have_phases_too(script, folder, monkeypatch):
    monkeypatch.setenv(AUTORECORD, "set")
    monkeypatch.setattr(PROCESS, "begin_for_script", script.recorder.begin_for_script)
    collect.start()
    for inputs, labels in [*script.loader, *script.loader]:
        with collect.step(samples=7):
            script.compute(inputs, labels)
            script.reduce()
            script.optimizer.step()

    steps = steps_with(script, folder)
    assert len(steps) == 10
    for step in steps[1:]:
        assert step["samples"] == 7
        assert blocked_ns(step) > 0
        assert all(phase_ns(step, part) > 0 for part in ("forward", "backward", "optimizer"))


def test_an_optimizer_that_consists_of_another_ends_each_step_once(script, folder):
    class Outer(torch.optim.Optimizer):
        def __init__(self, inner):
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    script.optimizer = Outer(script.optimizer)
    script.train()

    assert len(steps_with(script, folder, *ALL)) == 4


def test_a_failure_of_the_hook_never_reaches_the_script(script, folder, capsys):
    def fail():
        raise RuntimeError("no size today")

    script.hvd.size = script.hvd.is_initialized = fail
    script.reduce = lambda: None
    script.train()

    assert "no size today" in capsys.readouterr().err
    assert not (folder / "rank-0.jsonl").exists()


@pytest.mark.skipif(interpreter_monitoring() is None, reason="sys.monitoring came with Python 3.12")
@pytest.mark.parametrize("by_next", [False, True])
def test_batches_of_a_generator_are_data(script, folder, by_next):
    def batches():
        for batch in script.loader:
            time.sleep(0.01)
            yield batch

    if by_next:
        own = batches()
        for _ in range(5):
            inputs, labels = next(own)
            script.compute(inputs, labels)
            script.reduce()
            script.optimizer.step()
    else:
        script.train(batches())

    steps = steps_with(script, folder, "forward", "backward", "optimizer")
    assert len(steps) == 4
    # The loop is known from the second update on. A loader within the generator counts once.
    for step in steps[1:]:
        assert 1e7 < phase_ns(step, "data") < step["dur_ns"]
