"""The table of collectives that timed out, as PyTorch's watchdog prints them.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

COLLECTIVE_TIMEOUTS = Table(
    "collective_timeouts",
    "One collective of one rank at which PyTorch's watchdog gave up, or where the rank stood then.",
    (
        Column("file", "category", "", "The file, as it was named to hvdprof."),
        Column("line", "int64", "", "Number of the line in the file, from 1."),
        Column(
            "rank",
            "Int32",
            "",
            "Rank in the tag `[rank3]:`, else within its process group; missing where cut off.",
        ),
        Column("group", "category", "", "Process group as printed; empty where not printed."),
        Column("timed_out", "bool", "", "The rank timed out; else it printed its state alone."),
        Column("sequence", "Int64", "", "SeqNum of the collective within its process group."),
        Column("operation", "category", "", "OpType as printed; empty where it is cut off."),
        Column("num_elements_in", "Int64", "elements", "NumelIn; missing before PyTorch 2.2."),
        Column("num_elements_out", "Int64", "elements", "NumelOut; missing before PyTorch 2.2."),
        Column(
            "num_group_ranks",
            "Int64",
            "",
            "Ranks of the group: elements out by elements in of an allgather, or the inverse of a "
            "reduce-scatter; missing for other collectives.",
        ),
        Column("timeout_ns", "Int64", "ns", "The time-out that was set."),
        Column("waited_ns", "Int64", "ns", "How long the collective had run."),
        Column("last_enqueued", "Int64", "", "SeqNum of the last collective that was enqueued."),
        Column("last_completed", "Int64", "", "SeqNum of the last one that was completed."),
        Column("message", "str", "", "The line without what stands before it."),
    ),
)
