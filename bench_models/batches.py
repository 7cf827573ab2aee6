"""Where a training loop gets its batches from."""

from typing import Protocol

from torch import Tensor


class Batches(Protocol):
    """An endless supply of batches of one size for one rank."""

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Images (n, channels, edge, edge) and labels (n), on the device of the model."""
