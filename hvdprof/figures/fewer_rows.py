"""Few rows to draw of many: steps in bins, and the largest of each group."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
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


_CANDIDATES_OF_EACH = 200


def largest_of_each(table: pd.DataFrame, value: str, by: Sequence[str], most: int) -> pd.DataFrame:
    """The rows with the largest values, largest first, one for each combination of ``by``.

    Args:
        table: Any table.
        value: Name of the column to sort by; it has no missing values.
        by: Columns of the group; each combination is returned once, with its largest row.
        most: How many rows to return.
    """
    values = table[value].to_numpy(dtype=np.int64)
    num = most * _CANDIDATES_OF_EACH
    while True:
        candidates = (
            np.arange(len(values)) if num >= len(values) else np.argpartition(-values, num)[:num]
        )
        order = candidates[np.lexsort((candidates, -values[candidates]))]
        found = table.iloc[order].drop_duplicates(list(by)).head(most)
        # Where one group holds nearly all of them, more candidates are needed.
        if len(found) == most or num >= len(values):
            return found.reset_index(drop=True)
        num *= 10
