"""What the rules on a run look at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hvdprof.model.run import Run


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run and the tables of its analysis by name; a table that is not there has no rows."""

    run: Run
    tables: Mapping[str, pd.DataFrame]

    def table(self, name: str) -> pd.DataFrame:
        """A table of the analysis, else of the run, else without rows."""
        frame = self.tables.get(name)
        return self.run.table(name) if frame is None else frame

    def cells(self) -> list[dict[str, Any]]:
        """The rows of SCALING with Horovod that are not oversubscribed, as dictionaries."""
        scaling = self.table("scaling")
        kept = scaling[(scaling["engine"] == "horovod") & ~scaling["oversubscribed"]]
        return [
            {str(name): value for name, value in row.items()} for row in kept.to_dict("records")
        ]

    def setting(self, name: str) -> str | None:
        """An environment variable as the ranks had it; None where it was not set."""
        manifest = self.run.manifest
        for record in manifest.passes:
            if name in record.environment:
                return record.environment[name]
        return manifest.environment.get(name)

    @property
    def controllers(self) -> set[str]:
        """The controllers of the passes: gloo, mpi."""
        return {record.controller for record in self.run.manifest.passes}


def is_base(row: Mapping[str, Any]) -> bool:
    """Whether a row of a cell is one without toggles."""
    return bool(row["compression"] == "none" and row["reduction"] == "average")
