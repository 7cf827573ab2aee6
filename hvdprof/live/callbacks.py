"""Callbacks of training frameworks that log the live figures of the job in the framework's logger.

Rank 0 logs the flat dictionary of the other destinations, ``hvdprof/...``. A callback never ends
the training: a failure is one line on standard error. Each function imports its framework.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Protocol

from hvdprof.collect.host_facts import identity_from_environment, identity_from_horovod
from hvdprof.errors import MissingExtraError
from hvdprof.live.figure_feed import PERIOD_S, FigureFeed

_Hook = Callable[..., None]
_Callback = Any
"""Its class is made of the framework's, which is not imported before."""


class _Logger(Protocol):
    def log_metrics(self, metrics: Mapping[str, float], step: int) -> object: ...


class _LightningTrainer(Protocol):
    is_global_zero: bool
    global_step: int
    loggers: Sequence[_Logger]


class _Logging(Protocol):
    on_log: _Hook


class _Handler(Protocol):
    callbacks: Sequence[_Logging]


class _Trainer(Protocol):
    callback_handler: _Handler
    model: object


class _State(Protocol):
    is_world_process_zero: bool


def lightning_callback(folder: Path | None = None, *, period_s: float = PERIOD_S) -> _Callback:
    """A Callback of Lightning for ``Trainer(callbacks=[...])``: figures go to its loggers.

    Args:
        folder: Where the ranks record; by default ``HVDPROF_RECORDER_DIR``, without which the
            callback does nothing.
        period_s: The least time between two sets of figures.

    Raises:
        MissingExtraError: Lightning is not installed.
    """
    feed = FigureFeed(folder, period_s)

    def begin(trainer: _LightningTrainer, *_: object) -> None:
        if trainer.is_global_zero:
            feed.start()

    def log(trainer: _LightningTrainer, *_: object) -> None:
        if figures := feed.take():
            for logger in trainer.loggers:
                logger.log_metrics(figures, step=trainer.global_step)

    def end(*_: object) -> None:
        feed.close()

    # Its older name is a package of its own, whose trainer wants its own class.
    module = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
    hooks: dict[str, _Hook] = {"on_train_start": begin, "on_train_batch_end": log, "teardown": end}
    return _callback(module, "Callback", feed, **hooks)


def transformers_callback(
    trainer: _Trainer, folder: Path | None = None, *, period_s: float = PERIOD_S
) -> _Callback:
    """A TrainerCallback of Transformers for ``trainer.add_callback(...)``.

    Figures go to the other callbacks of the trainer that log, such as those of ``report_to``; not
    to the screen, and not to the history in its checkpoints.

    Args:
        trainer: The trainer that it is added to.
        folder: As ``lightning_callback``.
        period_s: As ``lightning_callback``.

    Raises:
        MissingExtraError: Transformers is not installed.
    """
    feed = FigureFeed(folder, period_s)

    def begin(_: object, state: _State, *__: object, **___: object) -> None:
        if state.is_world_process_zero:
            feed.start()

    def log(arguments: object, state: object, control: object, **_: object) -> None:
        if not (figures := feed.take()):
            return
        library = importlib.import_module("transformers.trainer_callback")
        screens = library.ProgressCallback, library.PrinterCallback
        for other in trainer.callback_handler.callbacks:
            if not isinstance(other, screens):
                # Of the control nothing may change: a log of the trainer may be due.
                given = {"model": trainer.model, "logs": dict(figures)}
                other.on_log(arguments, state, copy(control), **given)

    def end(*_: object, **__: object) -> None:
        feed.close()

    hooks: dict[str, _Hook] = {"on_train_begin": begin, "on_step_end": log, "on_train_end": end}
    return _callback("transformers", "TrainerCallback", feed, **hooks)


def keras_callback(folder: Path | None = None, *, period_s: float = PERIOD_S) -> _Callback:
    """A callback of Keras for ``fit(callbacks=[...])``, before those that log.

    At the end of an epoch its logs get the newest figures: Keras' own loggers take them there.

    Args:
        folder: As ``lightning_callback``.
        period_s: As ``lightning_callback``.

    Raises:
        MissingExtraError: Keras is not installed.
    """
    feed = FigureFeed(folder, period_s)

    def begin(*_: object) -> None:
        identity = identity_from_horovod() or identity_from_environment()
        if identity is None or identity.rank == 0:
            feed.start()

    def log(_: int, logs: dict[str, float] | None = None) -> None:
        if logs is not None:
            logs.update(feed.take())

    def end(*_: object) -> None:
        feed.close()

    hooks: dict[str, _Hook] = {"on_train_begin": begin, "on_epoch_end": log, "on_train_end": end}
    return _callback("keras.callbacks", "Callback", feed, **hooks)


def _callback(module: str, base: str, feed: FigureFeed, **hooks: _Hook) -> _Callback:
    """An instance of a framework's class with these hooks, none of which raises."""
    try:
        parent = getattr(importlib.import_module(module), base)
    except ImportError as error:
        raise MissingExtraError(f"The callback of {module}", extra="frameworks") from error

    def guarded(hook: _Hook) -> _Hook:
        def call(_: object, *arguments: object, **named: object) -> None:
            try:
                hook(*arguments, **named)
            except Exception as error:
                # Of the framework's loggers and their libraries, whose errors are their own.
                feed.fail(error)

        return call

    methods = {name: guarded(hook) for name, hook in hooks.items()}
    return type("HvdprofCallback", (parent,), methods)()
