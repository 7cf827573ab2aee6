"""The analysis of standalone files: facts, verdict, open questions, and tables made of them."""

from dataclasses import dataclass, field

import pandas as pd

from hvdprof.model.file_page import FilePage, FileVerdict, Gravity
from hvdprof.model.run import Run
from hvdprof.model.table_catalogue import DerivedTables, TableAttribute, declared_table
from hvdprof.model.tables.log_tables import THROUGHPUT_SCALING


@dataclass(frozen=True, slots=True)
class FilesAnalysis(DerivedTables):
    """Finished pages and tables of standalone files; everything after it only formats.

    ``derived`` holds tables computed from those of the run, by name; each is an attribute too.
    ``verdicts`` is what several files say together, each file apart stands in ``files``.
    """

    findings = TableAttribute()

    run: Run
    files: tuple[FilePage, ...]
    throughput_scaling: pd.DataFrame = field(default_factory=THROUGHPUT_SCALING.empty)
    derived: dict[str, pd.DataFrame] = field(default_factory=dict)
    verdicts: tuple[FileVerdict, ...] = ()

    @property
    def is_grave(self) -> bool:
        """Whether a file shows a hang or an error: it comes before what all files say together."""
        return any(page.gravity <= Gravity.ERROR for page in self.files)

    @property
    def row_counts(self) -> dict[str, int]:
        """The number of rows of every derived table that has some, by name."""
        return {name: len(frame) for name, frame in self.derived.items() if len(frame)}

    def table(self, name: str) -> pd.DataFrame:
        """One derived table by name, without rows where there are none.

        Raises:
            UsageError: No table has that name.
        """
        return self.derived[name] if name in self.derived else declared_table(name).empty()


@dataclass(frozen=True, slots=True)
class ScalingOfText:
    """How well a user's numbers scale.

    ``scaling`` holds THROUGHPUT_SCALING (``samples_per_s`` is NaN where the numbers were not rates
    of samples), ``verdicts`` one for each of its series, ``notes`` what was left out.
    """

    scaling: pd.DataFrame
    verdicts: tuple[FileVerdict, ...]
    notes: tuple[str, ...] = ()
