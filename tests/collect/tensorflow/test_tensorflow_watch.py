"""The recording of TensorFlow scripts on a TensorFlow that has functions and graphs alone."""

import sys
from statistics import median
from types import SimpleNamespace

import pytest

from hvdprof import collect
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.session import Session
from hvdprof.collect.tensorflow.tensorflow_watch import TensorFlowRecorder, record_training
from hvdprof.rundir.launch_format import AutoSettings
from tests.builders.fake_tensorflow import FakeTensor, FakeTensorFlow, fake_horovod
from tests.builders.recorded import blocked_ns, of_kind, phase_ns, recorded, steps_of

pytestmark = pytest.mark.usefixtures("steps_written_singly")

PARTS = ("forward", "backward", "collective", "optimizer")


class Script:
    """A script with a model of two variables."""

    def __init__(self, folder, monkeypatch, **changes):
        settings = {
            "num_warmup_steps": 1,
            "num_steps": None,
            "batch_size": None,
            "timeline": "",
            "num_timeline_steps": 5,
        }
        self.folder = folder
        self.tf = FakeTensorFlow()
        for name in ("iterator_ops", "optional_ops"):
            module = f"tensorflow.python.data.ops.{name}"
            monkeypatch.setitem(sys.modules, module, getattr(self.tf, name))
        self.hvd = fake_horovod(self.tf)
        watch = TensorFlowRecorder(self.hvd, self.tf, AutoSettings(**settings | changes))
        watch.hook_calls()
        self.recording = watch.recording
        self.optimizer = self.tf.keras.optimizers.Optimizer()

    def train(self, *_):
        """What one step of the script does, compiled or not."""
        tape = self.tf.GradientTape()
        self.tf.takes(2)
        reduce = self.hvd._make_allreduce_grads_fn()
        gradients = reduce(tape.gradient(FakeTensor(1), [FakeTensor(3), FakeTensor(4)]))
        self.optimizer.apply_gradients(gradients)

    def batches(self, number, length=8):
        return self.tf.iterator_ops.OwnedIterator([[FakeTensor(length)]] * number)

    def steps(self):
        return steps_of(recorded(self.folder / "rank-0.jsonl"), "main")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(tmp_path / "recorder"))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(PROCESS, "session", Session())
    monkeypatch.setattr(PROCESS, "marked_step", None)
    yield tmp_path / "recorder"
    collect.stop()


@pytest.fixture
def script(folder, monkeypatch):
    script = Script(folder, monkeypatch)
    yield script
    script.recording.end()


def test_a_compiled_step_that_is_called_with_batches(script):
    train = script.tf.function(script.train)
    for batch in script.batches(5):
        train(batch)
    script.hvd.shutdown()

    steps = script.steps()
    # The first call is the one that is traced; in it the recording begins.
    assert [step["warmup"] for step in steps] == [False] * 4
    assert {step["samples"] for step in steps} == {8}
    for part in ("data", *PARTS):
        assert all(phase_ns(step, part) > 0 for step in steps), part
    assert all(blocked_ns(step) == phase_ns(step, "collective") for step in steps)


def test_a_compiled_step_that_fetches_its_batch_itself(script):
    iterator = script.batches(1, length=6)
    script.hvd._make_allreduce_grads_fn()

    def step():
        iterator.get_next()
        script.train()

    train = script.tf.function(step)
    for _ in range(4):
        train()

    steps = script.steps()
    assert {step["samples"] for step in steps} == {6}
    assert all(phase_ns(step, "data") > 0 for step in steps)


def test_nothing_computes_with_a_batch_before_its_time_is_taken(script):
    batch = (FakeTensor(6), [FakeTensor(6)], "no tensor")
    script.hvd._make_allreduce_grads_fn()
    iterator, got = script.tf.iterator_ops.OwnedIterator([batch]), []
    script.tf.function(lambda: got.append(iterator.get_next(name="next")))()

    assert got == [batch]
    assert script.tf.held == [batch[0], batch[1][0]]


def test_a_call_on_several_batches_is_a_step_with_the_samples_of_all(script):
    script.hvd._make_allreduce_grads_fn()
    optionals = [script.tf.optional_ops._OptionalImpl([FakeTensor(6)]) for _ in range(3)]

    def train_on_all():
        for optional in optionals:
            optional.get_value()
            script.train()

    train = script.tf.function(train_on_all)
    for _ in range(12):
        train()

    steps = script.steps()
    assert [step["samples"] for step in steps] == [18] * 11
    for part in ("data", *PARTS):
        assert all(phase_ns(step, part) > 0 for step in steps), part
    # Two of three updates lie between batches, and look like the next batch. Other processes may
    # take the core in the middle of one step, but not of most.
    data, backward = (
        median(phase_ns(step, part) for step in steps) for part in ("data", "backward")
    )
    assert data < backward


def test_what_was_computed_is_no_batch(script):
    script.hvd._make_allreduce_grads_fn()
    result = script.tf.optional_ops._OptionalImpl([FakeTensor(6)])

    assert result.get_value() == result.batch
    assert not script.tf.held


def test_a_step_that_is_not_compiled_ends_with_its_update(script):
    for batch in script.batches(4, length=5):
        script.train(batch)

    steps = script.steps()
    assert [step["warmup"] for step in steps] == [True, False, False, False]
    assert {step["samples"] for step in steps[1:]} == {5}
    for part in ("data", "backward", "collective", "optimizer"):
        assert all(phase_ns(step, part) > 0 for step in steps[1:]), part


def test_an_optimizer_that_reduces_within_its_update_ends_the_step(script):
    reduce = script.hvd._make_allreduce_grads_fn()
    kind = script.tf.keras.optimizers.Optimizer

    def reduce_and_apply(optimizer, pairs):
        kind._backend_apply_gradients(optimizer, reduce(pairs))

    # As the class that Horovod makes of an optimizer of Keras 3.
    reducing = type("Distributed", (kind,), {"_backend_apply_gradients": reduce_and_apply})
    plain, distributed = kind(), reducing()
    for _ in range(4):
        gradients = script.tf.GradientTape().gradient(FakeTensor(1), [FakeTensor(3)])
        plain.apply_gradients(gradients)
        distributed.apply_gradients(gradients)

    steps = script.steps()
    assert len(steps) == 4
    for part in ("backward", "collective", "optimizer"):
        assert all(phase_ns(step, part) > 0 for step in steps[1:]), part


def test_optimizers_without_an_update_are_left_alone(script):
    script.tf.keras.optimizers.legacy = SimpleNamespace(Optimizer=type("Warning", (), {}))
    script.train()
    script.train()

    assert len(script.steps()) == 2


def test_the_update_of_a_second_optimizer_ends_no_step(script):
    other = script.tf.keras.optimizers.Optimizer()
    for _ in range(4):
        script.train()
        script.hvd._make_allreduce_grads_fn()([FakeTensor(3)])
        other.apply_gradients([])

    assert len(script.steps()) == 4


def test_gradients_that_stay_local_end_no_step(script):
    reduce = script.hvd._make_allreduce_grads_fn()
    calls = []

    def accumulate(batch):
        script.tf.GradientTape().gradient(FakeTensor(1), [])
        # As tf.cond runs one branch: the moments of the other do not come.
        graph = script.tf.graph
        script.tf.graph = []
        reduce([FakeTensor(3)])
        branch, script.tf.graph = script.tf.graph, graph
        script.tf.operation(lambda: _run(branch) if len(calls) % 2 else None)

    train = script.tf.function(accumulate)
    for batch in script.batches(9):
        calls.append(None)
        train(batch)

    # The branch is taken in every second call, the first among them.
    assert [step["samples"] for step in script.steps()] == [8, 16, 16, 16, 16]


def _run(operations):
    for operation in operations:
        operation()


def _evaluation_ns(step):
    return sum(length for name, _, length in step["phases"] if name == "evaluation")


def test_evaluation_of_keras_is_marked_in_its_step(script):
    train = script.tf.function(script.train)
    for _ in range(3):
        train(FakeTensor(8))
    script.tf.keras.Model().evaluate()
    for _ in range(2):
        train(FakeTensor(8))

    steps = script.steps()
    assert [step.get("evaluation", False) for step in steps] == [False, False, True, False]
    assert all(step["dur_ns"] - _evaluation_ns(step) < 400e6 for step in steps)


def test_batches_without_training_are_for_evaluation(script):
    train = script.tf.function(script.train)
    for _ in range(2):
        for batch in script.batches(2):
            train(batch)
        list(script.batches(3, length=100))

    # The step in which the second epoch begins follows an evaluation.
    assert [step.get("evaluation", False) for step in script.steps()] == [False, True, False]
    assert {step["samples"] for step in script.steps()} == {8}


def test_collectives_of_the_script_are_blocked_time_unless_they_are_traced(script):
    train = script.tf.function(script.train)
    for _ in range(3):
        train(FakeTensor(8))
        script.hvd.allreduce(FakeTensor(1))

    script.tf.function(lambda: script.hvd.allreduce(FakeTensor(1)))()
    first, second = script.steps()
    assert len(first["blocked"]) == len(second["blocked"]) == 2


def test_on_a_gpu_nothing_is_reported_of_the_inside(folder, monkeypatch):
    script = Script(folder, monkeypatch)
    script.tf.gpus = ["GPU:0"]
    train = script.tf.function(script.train)
    for _ in range(4):
        train(FakeTensor(8))
    script.recording.end()

    steps = script.steps()
    assert [step["phases"] for step in steps] == [[], [], []]
    # Missing, and not 0: the ranks may well have waited within the step.
    assert [step["blocked"] for step in steps] == [None] * 3


def test_on_a_gpu_a_step_that_is_not_compiled_reports_its_wait(folder, monkeypatch):
    script = Script(folder, monkeypatch)
    script.tf.gpus = ["GPU:0"]
    for batch in script.batches(3):
        script.train(batch)
    script.recording.end()

    assert all(blocked_ns(step) > 0 for step in script.steps()[1:])


def test_the_script_is_ended_after_the_steps_asked_for(folder, monkeypatch):
    script = Script(folder, monkeypatch, num_steps=3)
    train = script.tf.function(script.train)

    with pytest.raises(SystemExit):
        for _ in range(10):
            train(FakeTensor(8))
    script.recording.end()
    assert [step["warmup"] for step in script.steps()] == [False] * 3


def test_a_failure_ends_the_recording_and_not_the_training(script, folder, capsys):
    def fail(*_):
        raise RuntimeError("no operation today")

    script.tf.numpy_function = fail
    train = script.tf.function(script.train)
    results = [train(FakeTensor(8)) for _ in range(3)]

    assert results == [None] * 3
    lines = recorded(folder / "rank-0.jsonl")
    assert "no operation today" in of_kind(lines, "problem")[0]["message"]
    assert "the training continues" in capsys.readouterr().err


@pytest.mark.slow
def test_a_failure_at_an_evaluation_ends_the_recording_and_not_the_training(
    script, folder, monkeypatch
):
    def fail(**_):
        raise RuntimeError("no evaluation today")

    monkeypatch.setattr(script.recording.tracker, "evaluates", fail)
    train = script.tf.function(script.train)
    evaluate = script.tf.keras.Model().evaluate
    expected = evaluate()
    for _ in range(2):
        for batch in script.batches(2):
            train(batch)
        assert len(list(script.batches(3, length=100))) == 3
        assert evaluate() == expected

    problems = of_kind(recorded(folder / "rank-0.jsonl"), "problem")
    assert "no evaluation today" in problems[0]["message"]


def test_before_an_optimizer_or_a_tape_nothing_is_recorded(script, folder):
    script.tf.function(lambda: script.tf.takes(1))()
    next(script.batches(1))
    script.tf.GradientTape().gradient(FakeTensor(1), [])

    assert not folder.exists()


def test_a_horovod_that_is_not_known_is_reported(monkeypatch, capsys):
    settings = AutoSettings(
        num_warmup_steps=1, num_steps=None, batch_size=None, timeline="", num_timeline_steps=5
    )
    monkeypatch.setenv("HVDPROF_AUTORECORD", settings.to_text())
    monkeypatch.setitem(sys.modules, "tensorflow", FakeTensorFlow())

    record_training(object())

    assert "nothing is recorded" in capsys.readouterr().err
