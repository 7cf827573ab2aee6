"""The scaling table as comma-separated values."""

from typing import IO, ClassVar

from hvdprof.model.run import RunAnalysis
from hvdprof.report.format_names import Format


class CsvReporter:
    """The SCALING table, one line a cell, all digits kept; an empty field where there is none."""

    name: ClassVar[Format] = Format.CSV
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".csv.gz")

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the header of ``hvdprof.model.tables.scaling_tables.SCALING`` and its rows."""
        analysis.scaling.to_csv(stream, index=False, lineterminator="\n")
