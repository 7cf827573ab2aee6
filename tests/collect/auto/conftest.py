"""The folder of a recording in this process, after which nothing stays replaced."""

import gc
import queue
import sys
from collections import OrderedDict

import pytest

from hvdprof import collect
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto.loop_input import TOOL, interpreter_monitoring
from hvdprof.collect.session import Session


@pytest.fixture
def folder(tmp_path, monkeypatch):
    import torch

    path = tmp_path / "recorder"
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(path))
    # Calls stay replaced for the life of a process: here only for that of a test.
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    monkeypatch.setattr(iterator, "__next__", iterator.__next__)
    for owner, name in (
        (torch.autograd, "_engine_run_backward"),
        (torch.amp.GradScaler, "step"),
        (queue.Queue, "get"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    hooks = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(hooks, "_global_optimizer_post_hooks", OrderedDict())
    monkeypatch.setattr(PROCESS, "session", Session())
    monkeypatch.setattr(PROCESS, "marked_step", None)
    monkeypatch.setattr(PROCESS, "begin_for_script", None)
    # The recorder looks for models among all objects: not among those of a thousand other tests.
    gc.freeze()
    yield path
    collect.stop()
    gc.unfreeze()
    _end_callbacks()


def _end_callbacks() -> None:
    """A recorder that a test leaves running would see the loops of the next one."""
    monitoring = interpreter_monitoring()
    if monitoring is None:
        return
    for number in (2, 3, 4):
        if monitoring.get_tool(number) == TOOL:
            for event in (one for one in vars(monitoring.events).values() if one):
                monitoring.register_callback(number, event, None)
            monitoring.free_tool_id(number)
