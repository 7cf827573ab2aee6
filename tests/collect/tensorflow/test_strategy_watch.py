"""The recording of Keras scripts under a strategy, on a TensorFlow without computations."""

import sys
from types import SimpleNamespace

import pytest

from hvdprof import collect
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.session import Session
from hvdprof.collect.tensorflow.strategy_watch import (
    StrategyRecorder,
    global_batch,
    record_training,
)
from hvdprof.rundir.launch_format import AutoSettings
from tests.builders.fake_tensorflow import FakeTensorFlow
from tests.builders.recorded import of_kind, recorded, steps_of

pytestmark = pytest.mark.usefixtures("steps_written_singly")
SETTINGS = AutoSettings(
    num_warmup_steps=1, num_steps=None, batch_size=None, timeline="", num_timeline_steps=5
)


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(tmp_path))
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(PROCESS, "session", Session())
    monkeypatch.setattr(PROCESS, "marked_step", None)
    monkeypatch.setattr(PROCESS, "engine", "")
    tf = FakeTensorFlow()
    recorder = StrategyRecorder(tf, SETTINGS)
    recorder.hook_calls()
    yield SimpleNamespace(tf=tf, end=recorder.recording.end, file=tmp_path / "rank-0.jsonl")
    recorder.recording.end()
    collect.stop()


def test_each_batch_of_fit_is_a_step_whose_waits_are_not_known(script):
    script.tf.distribute.MultiWorkerMirroredStrategy()
    script.tf.keras.Model().fit([0], batch_size=64)
    script.end()

    lines = recorded(script.file)
    assert of_kind(lines, "header")[0]["engine"] == "tf-multiworker"
    steps = steps_of(lines, "main")
    assert [step["warmup"] for step in steps] == [True, False, False, False]
    # The batch is that of both workers.
    assert {step["samples"] for step in steps} == {32}
    assert all(step["dur_ns"] >= 2_000_000 for step in steps)
    assert all(step["blocked"] is None for step in steps)


@pytest.mark.parametrize("name", ["_DefaultDistributionStrategy", ""])
def test_without_a_strategy_nothing_is_recorded(script, name):
    if name:
        getattr(script.tf.distribute, name)()
    script.tf.keras.Model().fit([0])
    script.end()

    assert not script.file.exists()


def test_a_strategy_of_one_process_is_named(script):
    script.tf.distribute.MirroredStrategy()
    script.end()

    assert of_kind(recorded(script.file), "header")[0]["engine"] == "tf-mirrored"


def dataset(kind, shape=(None, 3), **facts):
    spec = SimpleNamespace(shape=_Shape(shape))
    return type(kind, (), {"element_spec": (spec, spec), **facts})()


class _Shape(tuple):
    @property
    def rank(self):
        return len(self)


def test_the_batch_of_a_dataset_is_that_of_its_batching():
    batched = dataset("_BatchDataset", _batch_size=48)

    assert global_batch(batched) == 48
    assert global_batch(dataset("_PrefetchDataset", _input_dataset=batched)) == 48
    assert global_batch(dataset("_UnbatchDataset", _input_dataset=batched)) == 0
    assert global_batch(dataset("_FlatMapDataset", shape=(16, 3))) == 16


def test_a_tensorflow_that_is_not_known_is_reported(monkeypatch, capsys):
    monkeypatch.setenv("HVDPROF_AUTORECORD", SETTINGS.to_text())
    record_training(SimpleNamespace())

    assert "nothing is recorded: AttributeError" in capsys.readouterr().err
