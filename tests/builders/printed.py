"""Text of a job through one part reader."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.printed_lines import every_line, printed_lines


def read_part(
    part: Callable[[str], PartReader], text: str | bytes, folder: Path
) -> tuple[dict[str, pd.DataFrame], PartReader]:
    """The tables that one reader finds in a text, with or without rows, and the reader.

    It finds the same where it gets only the lines that it wants.
    """
    path = folder / "printed.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    reader, chosen = part("printed.txt"), part("printed.txt")
    for line in printed_lines(path, every_line):
        reader.take(line)
    for line in printed_lines(path, lambda: chosen.wanted):
        chosen.take(line)
    tables, of_chosen = dict(reader.tables()), dict(chosen.tables())
    assert tables.keys() == of_chosen.keys()
    for name, frame in tables.items():
        pd.testing.assert_frame_equal(frame, of_chosen[name])
    assert (reader.kinds(), reader.notes()) == (chosen.kinds(), chosen.notes())
    return {table.name: table.empty() for table in reader.TABLES} | tables, reader
