from pathlib import Path

import numpy as np
import pandas as pd

from hvdprof.ingest.timeline.stream import PartSpool


def test_parts_come_back_in_their_order_and_share_their_categories(tmp_path: Path) -> None:
    names = pd.CategoricalDtype(pd.Index(["a", "b"], dtype=str))
    parts = [
        (np.arange(number), pd.Categorical.from_codes([number % 2], dtype=names))
        for number in range(5)
    ]
    with PartSpool[tuple[np.ndarray, pd.Categorical]](tmp_path) as spool:
        for part in parts:
            spool.append(part)
        assert not list(tmp_path.iterdir()), "the file has no name"
        for _ in range(2):
            for (numbers, labels), (expected, wanted) in zip(spool.parts(), parts, strict=True):
                assert numbers.tolist() == expected.tolist()
                assert list(labels) == list(wanted)
                assert labels.dtype is names
