"""What rules on NCCL logs share: rows by pattern, their file and line, hosts as text.

Tested in ``tests/analyze/findings/test_nccl_findings.py``.
"""

import pandas as pd

from hvdprof.model.arrays import FrameRow

HARMLESS = r"ibv_open_device failed|Unable to open device|Failed to find .* symbol"
"""Warnings of healthy jobs."""


def matching(frame: pd.DataFrame, column: str, pattern: str) -> pd.DataFrame:
    """The rows whose text begins with a pattern."""
    return frame[frame[column].astype(str).str.match(pattern).astype(bool)]


def is_several(frame: pd.DataFrame, column: str) -> bool:
    """Whether a column holds more than one value."""
    return len(frame[column].drop_duplicates()) > 1


def first_row(frame: pd.DataFrame) -> FrameRow:
    """The first row of a frame that has one, by column."""
    return frame.iloc[0].to_dict()


def shown(frame: pd.DataFrame) -> tuple[str, int]:
    """File and line of the first row: the place of the quote of a finding."""
    row = first_row(frame)
    return str(row["file"]), int(row["line"])


def hosts_of(frame: pd.DataFrame) -> str:
    """The hosts of some rows: `node1`, `node1 and node2`, `node1 and 7 more hosts`."""
    hosts = [str(host) for host in frame["host"].drop_duplicates()]
    if len(hosts) <= 2:
        return " and ".join(hosts)
    return f"{hosts[0]} and {len(hosts) - 1} more hosts"
