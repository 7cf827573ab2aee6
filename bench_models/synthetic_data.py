"""Synthetic data: one random batch, made once, so that no input pipeline is measured."""

import torch
from torch import Tensor

from hvdprof.bench_models.registry import BenchModel

_RANKS_BELOW = 1_000_003


class SyntheticBatches:
    """The same random batch again and again, on the device from the start.

    The batch follows from ``seed`` and ``rank`` alone; every rank has another one.
    """

    def __init__(
        self, model: BenchModel, batch_size: int, image_size: int, *, seed: int, rank: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed * _RANKS_BELOW + rank)
        shape = (batch_size, model.in_channels, image_size, image_size)
        self._images = torch.randn(shape, generator=generator)
        self._labels = torch.randint(model.num_classes, (batch_size,), generator=generator)

    def to(self, device: str) -> "SyntheticBatches":
        """This object, with its batch moved to a device."""
        self._images = self._images.to(device)
        self._labels = self._labels.to(device)
        return self

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """The batch."""
        return self._images, self._labels
