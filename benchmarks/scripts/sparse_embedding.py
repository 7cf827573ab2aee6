"""Word vectors with sparse gradients, which Horovod gathers instead of reducing.

Faults: data, forward, backward, pause.
"""

import argparse
from collections.abc import Iterator

import horovod.torch as hvd
import torch
from torch import nn

from benchmarks.scripts.fault import Fault
from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work

VOCABULARY = 500
WINDOW = 6


class WordVectors(nn.Module):
    """Predicts a word from those around it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.vectors = nn.Embedding(VOCABULARY, 16, sparse=True)
        self.hidden = Layer((16, 32), (9, 18))
        self.output = Layer((32, VOCABULARY), (11, 20), fault)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Scores of all words."""
        scores: torch.Tensor = self.output(self.hidden(self.vectors(words).mean(1)).relu())
        return scores


class Corpus:
    """OwnTimes of a text, read from a file system."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Words around, and the word."""
        step = 0
        while True:
            work(0.5)
            slow_down(self.fault, "data", step)
            words = torch.randint(0, VOCABULARY, (32, WINDOW + 1))
            yield words[:, :-1], words[:, -1]
            step += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_fault_option(parser)
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(6 + hvd.rank())
    torch.set_num_threads(1)
    net = WordVectors(options.fault)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)
    sgd = hvd.DistributedOptimizer(sgd, named_parameters=net.named_parameters())
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    for number, (around, word) in enumerate(Corpus(options.fault)):
        sgd.zero_grad()
        nn.functional.cross_entropy(net(around), word).backward()
        sgd.step()
        slow_down(options.fault, "pause", number)
