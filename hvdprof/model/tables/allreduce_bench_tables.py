"""The table of the output of all_reduce_bench.py.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

ALLREDUCE_BENCH = Table(
    "allreduce_bench",
    "One payload of all_reduce_bench.py (stas00/ml-engineering), the mean over its trials.",
    (
        Column("file", "category", "", "The file, as it was named to hvdprof."),
        Column("line", "int64", "", "Number of the line in the file, from 1."),
        Column("run", "int64", "", "Number of its table in the file, from 0."),
        Column("np", "Int64", "", "Ranks; missing without the line above the table."),
        Column("size_bytes", "int64", "bytes", "Size of the payload; printed in KiB, MiB or GiB."),
        Column("busbw_gb_s", "float64", "GB/s", "Bus bandwidth as printed (1e9 bytes)."),
        Column("algbw_gb_s", "float64", "GB/s", "Size divided by time, as printed."),
    ),
)
