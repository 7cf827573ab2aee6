"""Callbacks of frameworks, under the frameworks themselves where they are installed."""

import importlib
import importlib.util
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from hvdprof.errors import MissingExtraError
from hvdprof.live.callbacks import keras_callback, lightning_callback, transformers_callback
from tests.builders.live_job import LiveJob

KEY = "hvdprof/step_seconds"

pytestmark = pytest.mark.filterwarnings("ignore")


def needs(*names):
    return pytest.mark.skipif(
        not all(map(importlib.util.find_spec, names)),
        reason=f"no {' and '.join(names)} here (extra frameworks)",
    )


@pytest.fixture
def folder(tmp_path):
    job = LiveJob(tmp_path / "recorder", 2)
    job.record(30)
    return job.folder


class Stub:
    """A base class of callbacks without any hook."""


@pytest.fixture
def stubs(monkeypatch):
    """The three frameworks, with what the documented protocols ask of callbacks."""
    for name, attributes in (
        ("lightning", {}),
        ("lightning.pytorch", {"Callback": Stub}),
        ("transformers", {"TrainerCallback": Stub}),
        (
            "transformers.trainer_callback",
            {name: type(name, (Stub,), {}) for name in ("ProgressCallback", "PrinterCallback")},
        ),
        ("keras", {}),
        ("keras.callbacks", {"Callback": Stub}),
    ):
        module = ModuleType(name)
        module.__dict__.update(attributes)
        monkeypatch.setitem(sys.modules, name, module)


def steps(log, seen):
    """Steps of a training until figures were logged."""
    deadline = time.monotonic() + 60
    while not seen and time.monotonic() < deadline:
        log()
        time.sleep(0.05)


@pytest.mark.parametrize("is_zero", [True, False])
def test_lightning_hands_figures_to_every_logger_of_rank_0(stubs, folder, is_zero):
    seen = []
    logger = SimpleNamespace(log_metrics=lambda figures, step: seen.append((figures, step)))
    trainer = SimpleNamespace(is_global_zero=is_zero, loggers=[logger, logger], global_step=7)
    callback = lightning_callback(folder, period_s=0)
    callback.on_train_start(trainer, None)
    if is_zero:
        steps(lambda: callback.on_train_batch_end(trainer, None, None, None, 0), seen)
        assert [(KEY in figures, step) for figures, step in seen] == [(True, 7)] * 2
    else:
        time.sleep(2)
        callback.on_train_batch_end(trainer, None, None, None, 0)
        assert seen == []
    callback.teardown(trainer, None, "fit")


def test_a_logger_that_fails_ends_no_training(stubs, folder, capfd):
    calls = []

    def refuse(figures, step):
        calls.append(step)
        raise OSError("the disk is full")

    logger = SimpleNamespace(log_metrics=refuse)
    trainer = SimpleNamespace(is_global_zero=True, loggers=[logger], global_step=7)
    callback = lightning_callback(folder, period_s=0)
    callback.on_train_start(trainer, None)
    steps(lambda: callback.on_train_batch_end(trainer, None, None, None, 0), calls)
    callback.on_train_batch_end(trainer, None, None, None, 1)
    assert calls == [7]
    assert capfd.readouterr().err.splitlines() == [
        "hvdprof recorder: no more live figures in this framework's logger: the disk is full."
    ]


def test_transformers_hands_figures_to_what_logs_and_not_to_the_screen(stubs, folder):
    from transformers.trainer_callback import ProgressCallback

    seen, control = [], SimpleNamespace(should_log=True)

    def on_log(arguments, state, control, logs, model):
        control.should_log = False
        seen.append(logs)

    screen = ProgressCallback()
    handler = SimpleNamespace(callbacks=[screen, SimpleNamespace(on_log=on_log)])
    trainer = SimpleNamespace(callback_handler=handler, model=None)
    callback = transformers_callback(trainer, folder, period_s=0)
    state = SimpleNamespace(is_world_process_zero=True)
    callback.on_train_begin(None, state, control, model=None)
    steps(lambda: callback.on_step_end(None, state, control, model=None), seen)
    callback.on_train_end(None, state, control)
    assert KEY in seen[0]
    assert control.should_log


def test_keras_has_figures_in_the_logs_of_an_epoch(stubs, folder):
    callback, logs = keras_callback(folder, period_s=0), {}
    callback.on_train_begin({})
    steps(lambda: callback.on_epoch_end(0, logs), logs)
    callback.on_train_end({})
    assert KEY in logs


@pytest.mark.parametrize("make", [lightning_callback, keras_callback])
def test_a_missing_framework_names_the_extra(monkeypatch, make):
    for name in ("lightning", "lightning.pytorch", "keras", "keras.callbacks"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError) as missing:
        make()
    assert missing.value.hint == "pip install 'hvdprof[frameworks]'"


@pytest.mark.frameworks
@needs("lightning", "torch")
def test_a_trainer_of_lightning_logs_them(folder, tmp_path):
    import lightning
    import torch
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, index):
            time.sleep(0.1)
            return self.layer(batch[0]).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters())

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(100, 2)))
    lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        logger=CSVLogger(tmp_path / "logs"),
        callbacks=[lightning_callback(folder, period_s=0)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Module(), loader)
    (file,) = (tmp_path / "logs").rglob("metrics.csv")
    head, *rows = file.read_text().splitlines()
    assert KEY in head.split(",")
    assert rows


@pytest.mark.frameworks
@needs("transformers", "accelerate", "torch", "tensorboard")
def test_a_trainer_of_transformers_logs_them(folder, tmp_path, capfd):
    import torch
    import transformers
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Model(transformers.PreTrainedModel):
        config_class = transformers.PretrainedConfig

        def __init__(self, config):
            super().__init__(config)
            self.layer = torch.nn.Linear(2, 1)
            self.post_init()

        def forward(self, inputs, labels=None):
            time.sleep(0.1)
            return {"loss": self.layer(inputs).sum()}

    rows = [{"inputs": torch.ones(2), "labels": torch.zeros(1)}] * 100
    arguments = transformers.TrainingArguments(
        str(tmp_path / "out"),
        num_train_epochs=1,
        per_device_train_batch_size=1,
        report_to=["tensorboard"],
        save_strategy="no",
        logging_steps=50,
        use_cpu=True,
    )
    trainer = transformers.Trainer(
        Model(transformers.PretrainedConfig()), arguments, train_dataset=rows
    )
    trainer.add_callback(transformers_callback(trainer, folder, period_s=0))
    trainer.train()
    (file,) = tmp_path.rglob("events.out.tfevents.*")
    read = EventAccumulator(str(file))
    read.Reload()
    assert f"train/{KEY}" in read.Tags()["scalars"]
    assert not [row for row in trainer.state.log_history if KEY in row]
    assert KEY not in capfd.readouterr().out


@pytest.mark.frameworks
@needs("keras", "torch")
def test_a_fit_of_keras_logs_them(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    import numpy as np

    keras = importlib.import_module("keras")

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    pause = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: time.sleep(1.5))
    ours = keras_callback(folder, period_s=0)
    history = model.fit(
        np.ones((4, 2)), np.ones((4, 1)), epochs=4, verbose=0, callbacks=[pause, ours]
    )
    assert KEY in history.history
