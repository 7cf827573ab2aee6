"""Binning of steps, so that the figure of a long run stays small and legible."""

import numpy as np
from numpy.typing import NDArray


def bin_starts(num_values: int, most_bins: int) -> NDArray[np.int64]:
    """Start of each of at most ``most_bins`` bins of consecutive values, of even length."""
    if num_values <= most_bins:
        return np.arange(num_values, dtype=np.int64)
    return np.unique(np.linspace(0, num_values, most_bins, endpoint=False).astype(np.int64))


def bin_means(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean of each bin, [bins, ...]."""
    if not len(starts):
        return values[:0]
    lengths = np.diff(starts, append=len(values))
    sums = np.add.reduceat(values, starts, axis=0)
    return np.asarray(sums / lengths.reshape(-1, *([1] * (values.ndim - 1))))


def bin_largest(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The largest value of each bin, [bins, ...]."""
    if not len(starts):
        return values[:0]
    return np.asarray(np.maximum.reduceat(values, starts, axis=0))
