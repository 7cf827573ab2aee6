"""The table of collectives that NCCL's Inspector plugin writes.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

INSPECTOR_COLLECTIVES = Table(
    "inspector_collectives",
    "One completed collective, or send or receive, of one rank, as NCCL's Inspector records it.",
    (
        Column("file", "category", "", "The file, as it was named to hvdprof."),
        Column("line", "int64", "", "Number of the line in the file, from 1."),
        Column("communicator", "category", "", "Hash of the communicator."),
        Column("communicator_name", "category", "", "Its name; empty before NCCL 2.30."),
        Column("rank", "Int32", "", "Rank in the communicator; missing where no header states it."),
        Column("num_ranks", "Int64", "", "Ranks of the communicator."),
        Column("num_nodes", "Int64", "", "Its nodes."),
        Column("host", "category", "", "Host that wrote it."),
        Column("point_to_point", "bool", "", "A send or receive."),
        Column("collective", "category", "", "AllReduce, AllGather, Send ... as printed."),
        Column("seq", "int64", "", "Number of the collective in its communicator (`coll_sn`)."),
        Column("message_bytes", "int64", "bytes", "Message size as printed: of one rank."),
        Column(
            "size_bytes",
            "int64",
            "bytes",
            "Payload as nccl-tests counts it: of all ranks for AllGather and ReduceScatter.",
        ),
        Column("exec_ns", "int64", "ns", "Time of execution, waiting for other ranks included."),
        Column("timing_source", "category", "", "kernel_gpu, kernel_cpu or collective_cpu."),
        Column("algbw_gb_s", "float64", "GB/s", "Algorithm bandwidth as printed."),
        Column("busbw_gb_s", "float64", "GB/s", "Bus bandwidth as printed."),
        Column("algorithm", "category", "", "RING, TREE ...; empty before format 4.4."),
        Column("protocol", "category", "", "LL, SIMPLE ...; empty before format 4.4."),
        Column(
            "start_ns",
            "Int64",
            "ns",
            "Unix time of the first kernel start, by the host; missing without verbose output.",
        ),
        Column("end_ns", "Int64", "ns", "Unix time of its last kernel stop."),
    ),
)
