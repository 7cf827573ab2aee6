"""The table of timeline files: what each says of itself and of the job that wrote it."""

from hvdprof.model.schema import Column, Table

TIMELINES = Table(
    "timelines",
    "One Horovod timeline file.",
    (
        Column("pass_id", "category", "", "Pass in a run directory; else the file as named."),
        Column("segment", "category", "", "Segment in a run directory; else empty."),
        Column("writer", "str", "", "Versions of Horovod that write such a file."),
        Column("time_zero", "category", "", "What time 0 of the file is."),
        Column(
            "epoch_ns",
            "Int64",
            "ns",
            "Wall clock at time 0 of the file; the same in all files of one process, whose times "
            "therefore stand on one axis. Missing before Horovod 0.20.1.",
        ),
        Column("text_bytes", "int64", "bytes", "Size when it was read, after decompression."),
        Column("num_events", "int64", "", "Rows of EVENTS."),
        Column("span_ns", "int64", "ns", "From the start of the first event to the latest end."),
        Column("backends", "str", "", "Libraries that moved data, joined by a comma."),
        Column("frameworks", "str", "", "Frameworks whose names of tensors are found."),
        Column("np", "Int64", "", "Ranks, as far as the file tells; missing where it does not."),
        Column("np_reason", "str", "", "How the number of ranks is known, or why not."),
        Column("num_tensors", "int64", "", "Tensors that were used."),
        Column("num_executions", "int64", "", "Executions of one or several fused tensors."),
        Column("num_fused_executions", "int64", "", "Those of several tensors."),
        Column("num_phantoms", "int64", "", "Negotiations without an operation, left out."),
        Column("num_errors", "int64", "", "Operations that Horovod refused."),
        Column("rank_ticks", "category", "", "none, first use, some uses or every use."),
        Column("rank_ticks_sentence", "str", "", "What that means for naming a late rank."),
        Column("autotuned", "bool", "", "Autotuning seems to have been on."),
        Column("torus", "bool", "", "Stages of the torus allreduce are in it."),
    ),
)
