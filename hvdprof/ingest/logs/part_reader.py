"""What reads one kind of content out of a job's output, line by line, beside the other kinds."""

from collections.abc import Mapping
from typing import Protocol

import pandas as pd

from hvdprof.ingest.logs.printed_lines import PrintedLine


class PartReader(Protocol):
    """Takes every line of a file, in order, and keeps what it understands."""

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""

    def tables(self) -> Mapping[str, pd.DataFrame]:
        """What was found, by the name of its table; tables without rows may be among them."""

    def kinds(self) -> list[str]:
        """What the file is, as far as this reader goes; empty where it found nothing."""

    def notes(self) -> list[str]:
        """Clauses that say what was odd or left out."""
