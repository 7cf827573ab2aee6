"""Tables of what the sampling thread of the recorder saw: lines of code, and named calls.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

_WINDOW = (
    Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
    Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
    Column("rank", "int32", "", "Rank as `hvd.rank()` returns it."),
    Column(
        "process",
        "category",
        "",
        "`main` for the rank's own process, `worker` for those that it started for its input.",
    ),
    Column(
        "step",
        "int64",
        "",
        "Number of the first step of the window within its segment; -1 outside steps. Of a worker "
        "the step of its rank at that time.",
    ),
    Column(
        "steps",
        "int64",
        "",
        "Steps of the window; 1 for a step that is kept singly because it took more than twice as "
        "long as usual.",
    ),
    Column(
        "phase",
        "category",
        "",
        "Phase of the step in which the samples were taken; `blocked` where the rank waits for "
        "others, `outside` outside phases and for a worker.",
    ),
)

LINE_SAMPLES = Table(
    "line_samples",
    "Samples of one line of code in one window and phase on one rank: how often the sampling "
    "thread found the training thread, or a worker, there.",
    (
        *_WINDOW,
        Column(
            "file",
            "category",
            "",
            "File of the innermost line of the user's code, or the name of a cell; empty where no "
            "such line was running, and for the samples of rare lines together.",
        ),
        Column("line", "int32", "", "Its number, from 1; 0 without a file."),
        Column("function", "category", "", "Its function, with its class where there is one."),
        Column(
            "leaf",
            "category",
            "",
            "Innermost function where it is not the user's, `PIL/Image.py decode`; else empty; "
            "`other` for the samples of rare lines together.",
        ),
        Column("samples", "int64", "samples", "Number of samples."),
    ),
)

LINE_SAMPLING = Table(
    "line_sampling",
    "The samples of one window and phase on one rank together, and how regularly they were taken.",
    (
        *_WINDOW,
        Column("samples", "int64", "samples", "All samples of the window in this phase."),
        Column(
            "time_ns",
            "int64",
            "ns",
            "Time of the window in this phase, where the recorder knows it; else 0.",
        ),
        Column("mean_gap_ns", "int64", "ns", "Mean time from one sample to the next."),
        Column(
            "late_ns",
            "int64",
            "ns",
            "Sum of the times by which samples came later than intended: a call into C that held "
            "the interpreter's lock, or a busy core.",
        ),
    ),
)

NAMED_CALLS = Table(
    "named_calls",
    "One call on one rank whose name and times are exact, beside the samples: a garbage "
    "collection, a checkpoint, an evaluation, a recompilation.",
    (
        Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        Column("rank", "int32", "", "Rank as `hvd.rank()` returns it."),
        Column(
            "step", "int64", "", "Number of the step within its segment, from 0; -1 outside steps."
        ),
        Column(
            "name",
            "category",
            "",
            "`garbage collection`, `torch.save`, `evaluation`, `torch.compile recompilation` or "
            "`cudaMalloc retry`.",
        ),
        Column("start_ns", "int64", "ns", "Start on rank 0's monotonic clock."),
        Column(
            "duration_ns", "int64", "ns", "Length; 0 where only the moment of a sample is known."
        ),
        Column("file", "category", "", "File of the user's line that called it; empty if unknown."),
        Column("line", "int32", "", "Its number, from 1; 0 where unknown."),
        Column("detail", "category", "", "What it was about: the generation that was collected."),
    ),
)

LINE_TABLES = (LINE_SAMPLES, LINE_SAMPLING, NAMED_CALLS)
