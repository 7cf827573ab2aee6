"""The formats in which tables are written; light to import."""

from enum import StrEnum


class TableFormat(StrEnum):
    """The formats in which tables are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
