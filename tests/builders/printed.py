"""Text of a job through one part reader."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.printed_lines import printed_lines


def read_part(
    part: Callable[[str], PartReader], text: str | bytes, folder: Path
) -> tuple[dict[str, pd.DataFrame], PartReader]:
    """The tables that one reader finds in a text, and the reader."""
    path = folder / "printed.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    reader = part("printed.txt")
    for line in printed_lines(path):
        reader.take(line)
    return dict(reader.tables()), reader
