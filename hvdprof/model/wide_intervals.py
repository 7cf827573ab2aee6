"""Which efficiencies are known too little to act on.

Tested in ``tests/analyze/verdict/test_data_quality.py``.
"""

import pandas as pd

WIDE_SHARE = 0.1
"""Half of a 95 % interval, as a share of its value, beyond which a number is drawn as uncertain."""

WIDE_MARK = "≈"
"""Stands before an efficiency whose interval is that wide."""


def is_wide(cells: pd.DataFrame) -> "pd.Series[bool]":
    """Mask of the rows of SCALING whose efficiency has an interval wider than ±10 %."""
    half = (cells["efficiency_high"] - cells["efficiency_low"]) / 2
    return half / cells["efficiency"] > WIDE_SHARE
