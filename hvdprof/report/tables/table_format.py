"""The formats in which tables are written; light to import.

Tested in ``tests/report/tables/test_table_files.py``.
"""

from enum import StrEnum


class TableFormat(StrEnum):
    """The formats in which tables are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
