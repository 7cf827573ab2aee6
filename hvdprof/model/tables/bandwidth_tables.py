"""Tables of bandwidth benchmarks: nccl-tests and all_reduce_bench.py.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

_FILE = Column("file", "category", "", "The file, as it was named to hvdprof.")
_LINE = Column("line", "int64", "", "Number of the line in the file, from 1.")

NCCL_TEST_RUNS = Table(
    "nccl_test_runs",
    "One run of a program of nccl-tests, from its output.",
    (
        _FILE,
        _LINE,
        Column("run", "int64", "", "Number of the run in its file, from 0."),
        Column("operation", "category", "", "Such as all_reduce; empty where not printed."),
        Column(
            "np", "Int64", "", "Highest rank that the output lists, plus 1; missing where none."
        ),
        Column("num_hosts", "Int64", "", "Hosts of these ranks; missing where none is listed."),
        Column("device", "category", "", "Name of the GPU of the first rank; empty if unknown."),
        Column("version", "category", "", "Version of nccl-tests; empty where not printed."),
        Column("num_sizes", "int64", "", "Message sizes with a result."),
        Column("num_damaged", "int64", "", "Rows of the table that could not be parsed."),
        Column(
            "num_refused",
            "int64",
            "",
            "Rows of numbers that contradict each other (`algbw` is not size divided by time).",
        ),
        Column("peak_busbw_gb_s", "float64", "GB/s", "Highest bus bandwidth; NaN without a row."),
        Column("peak_size_bytes", "Int64", "bytes", "Size of the message that reached it."),
        Column("num_wrong", "Int64", "", "Wrong elements of all rows; missing where not checked."),
        Column(
            "avg_busbw_gb_s",
            "float64",
            "GB/s",
            "`Avg bus bandwidth` as printed: over all sizes, tiny ones included; NaN if absent.",
        ),
        Column("failed", "bool", "", "The output reports a test failure."),
    ),
)

NCCL_TESTS = Table(
    "nccl_tests",
    "One measurement of nccl-tests: one message size, in place or out of place.",
    (
        _FILE,
        _LINE,
        Column("run", "int64", "", "Number of the run in its file, from 0."),
        Column("size_bytes", "int64", "bytes", "Size of the message."),
        Column("count", "Int64", "elements", "Elements; missing where the layout has no column."),
        Column("dtype", "category", "", "Type of the elements; empty where not printed."),
        Column("redop", "category", "", "Reduction; empty where the operation has none."),
        Column("root", "Int64", "", "Root rank, -1 for none; missing where not printed."),
        Column("in_place", "boolean", "", "In place; missing where the layout does not say."),
        Column("time_ns", "int64", "ns", "Mean time of one operation."),
        Column("algbw_gb_s", "float64", "GB/s", "Size divided by time, as printed (1e9 bytes)."),
        Column("busbw_gb_s", "float64", "GB/s", "Bus bandwidth as printed."),
        Column("num_wrong", "Int64", "", "Wrong elements (`#wrong`); missing where not checked."),
        Column("max_error", "float64", "", "Largest error (`error`); NaN where not checked."),
    ),
)

ALLREDUCE_BENCH = Table(
    "allreduce_bench",
    "One payload of all_reduce_bench.py (stas00/ml-engineering), the mean over its trials.",
    (
        _FILE,
        _LINE,
        Column("run", "int64", "", "Number of its table in the file, from 0."),
        Column("np", "Int64", "", "Ranks; missing without the line above the table."),
        Column("size_bytes", "int64", "bytes", "Size of the payload; printed in KiB, MiB or GiB."),
        Column("busbw_gb_s", "float64", "GB/s", "Bus bandwidth as printed (1e9 bytes)."),
        Column("algbw_gb_s", "float64", "GB/s", "Size divided by time, as printed."),
    ),
)

BANDWIDTH_TABLES: tuple[Table, ...] = (NCCL_TEST_RUNS, NCCL_TESTS, ALLREDUCE_BENCH)
