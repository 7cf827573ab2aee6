"""The largest rows of a table of millions, at most one per group."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

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
