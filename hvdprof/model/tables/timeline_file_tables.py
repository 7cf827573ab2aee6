"""The table of timeline files: facts on each file and on the job that wrote it.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

TIMELINES = Table(
    "timelines",
    "One Horovod timeline file.",
    (
        Column("pass_id", "category", "", "Pass in a run directory; else the file as named."),
        Column("segment", "category", "", "Segment in a run directory; else empty."),
        Column("writer", "str", "", "Versions of Horovod that write this format."),
        Column("time_zero", "category", "", "Meaning of time 0 of the file."),
        Column(
            "epoch_ns",
            "Int64",
            "ns",
            "Wall clock at time 0 of the file; the same in all files of one process, so their "
            "times "
            "share one axis. Missing before Horovod 0.20.1.",
        ),
        Column("text_bytes", "int64", "bytes", "Size as read, after decompression."),
        Column("num_events", "int64", "", "Rows of EVENTS."),
        Column("span_ns", "int64", "ns", "From the start of the first event to the latest end."),
        Column("backends", "str", "", "Communication libraries, joined by a comma."),
        Column("frameworks", "str", "", "Frameworks recognised by tensor names."),
        Column("np", "Int64", "", "Number of ranks; missing where the file does not show it."),
        Column("np_reason", "str", "", "Source of the number of ranks, or why it is unknown."),
        Column("num_tensors", "int64", "", "Tensors in use."),
        Column("num_executions", "int64", "", "Executions of one or several fused tensors."),
        Column("num_fused_executions", "int64", "", "Executions of several tensors."),
        Column("num_phantoms", "int64", "", "Negotiations without an operation, excluded."),
        Column("num_errors", "int64", "", "Operations that Horovod refused."),
        Column(
            "num_recordings",
            "int64",
            "",
            "Recordings of different processes in the file, by their headers; 0 without a header.",
        ),
        Column(
            "num_time_jumps",
            "int64",
            "",
            "Places at which the times of the file fall back by 1 ms or more, as Horovod never "
            "writes them.",
        ),
        Column("rank_ticks", "category", "", "none, first use, some uses or every use."),
        Column("rank_ticks_sentence", "str", "", "Consequence for naming the straggler."),
        Column("autotuned", "bool", "", "Autotuning was probably on."),
        Column("torus", "bool", "", "The file holds stages of the torus allreduce."),
    ),
)
