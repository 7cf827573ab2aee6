"""A script in this process: real torch, and a Horovod that has no network."""

from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader, TensorDataset

from hvdprof.collect.auto.autorecord import AutoRecorder
from hvdprof.rundir.launch_format import AutoSettings
from tests.builders.recorded import recorded

BATCH = 4


class Script:
    """A script with a model, and what it may do with it."""

    def __init__(self, elastic=None, size=2, **changes):
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
            synchronize=lambda handle: handle,
            broadcast_optimizer_state=lambda optimizer: optimizer.step(),
            is_initialized=lambda: True,
            size=lambda: size,
            shutdown=lambda: None,
            init=lambda: None,
            elastic=elastic,
        )
        self.recorder = AutoRecorder(self.hvd, AutoSettings(**settings | changes))
        self.recorder.hook_horovod()
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
