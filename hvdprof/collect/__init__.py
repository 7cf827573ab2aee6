"""The recorder that a training script calls: when each rank did what, and how long it waited.

The lines to add to a Horovod script::

    from hvdprof import collect

    collect.start()                           # after hvd.init()
    collect.watch(model, optimizer)           # after hvd.DistributedOptimizer(...)
    for images, labels in loader:
        with collect.step(samples=len(images)):
            ...                               # forward, backward, optimizer.step()
    collect.stop()                            # on every rank, when training is over

Without ``HVDPROF_RECORDER_DIR`` in the environment all of this does nothing. With it, every rank
writes ``rank-<rank>.jsonl`` into that folder (docs/reference/run_directory.md). A failure of the
recorder ends the recording and never the training (docs/explain/recorder.md).

The calls are in ``public_calls``, imported with the first of them: what else is in this package
starts without the recorder.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hvdprof.collect.public_calls import (
        blocked,
        bucket_hook,
        loss,
        mark,
        passed,
        phase,
        segment,
        start,
        step,
        stop,
        timeline,
        unwatch,
        watch,
    )

__all__ = [
    "blocked",
    "bucket_hook",
    "loss",
    "mark",
    "passed",
    "phase",
    "segment",
    "start",
    "step",
    "stop",
    "timeline",
    "unwatch",
    "watch",
]


def __getattr__(name: str) -> object:
    """A public call.

    Raises:
        AttributeError: There is no such name.
    """
    if name in __all__:
        value: object = getattr(importlib.import_module(f"{__name__}.public_calls"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
