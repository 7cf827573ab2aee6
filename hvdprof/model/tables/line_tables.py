"""Tables of sampled lines of code and named calls: as recorded, and what they explain."""

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.schema import Column, Table

_PASS = "Folder name of the pass, as in the manifest."
_SEGMENT = "Id of the segment within the pass, as in the plan."
_RANK = "Rank as `hvd.rank()` returns it."
_WINDOW = (
    Column("pass_id", "category", _PASS),
    Column("segment", "category", _SEGMENT),
    Column("rank", "int32", _RANK),
    Column(
        "process",
        "category",
        "`main` for the rank's own process, `worker` for those that it started for its input.",
    ),
    Column(
        "step",
        "int64",
        "Number of the first step of the window within its segment; -1 before the first one and "
        "after the last. Of a worker the step of its rank at that time.",
    ),
    Column(
        "steps",
        "int64",
        "Steps of the window; 1 for a step that is kept singly because it took more than twice as "
        "long as usual.",
    ),
    Column(
        "phase",
        "category",
        "Phase of the step in which the samples were taken; `blocked` where the rank waits for "
        "others, `outside` outside phases, between steps and for a worker.",
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
            "File of the innermost line of the user's code, or the name of a cell; empty where no "
            "such line was running, and for the samples of rare lines together.",
        ),
        Column("line", "int32", "Its number, from 1; 0 without a file."),
        Column("function", "category", "Its function, with its class where there is one."),
        Column(
            "leaf",
            "category",
            "Innermost function where it is not the user's, `PIL/Image.py decode`; else empty; "
            "`other` for the samples of rare lines together.",
        ),
        Column(
            "stage",
            "category",
            "Stage of torch's DataLoader in which it was: `fetch`, `collate`, `pin` (pinned "
            "memory), `receive` (from a worker), `wait` (for a worker, or of a worker for work); "
            "empty elsewhere, and where the recorder was older.",
        ),
        Column("samples", "int64", "Number of samples.", "samples"),
    ),
)

LINE_SAMPLING = Table(
    "line_sampling",
    "The samples of one window and phase on one rank together, and how regularly they were taken.",
    (
        *_WINDOW,
        Column("samples", "int64", "All samples of the window in this phase.", "samples"),
        Column(
            "time_ns",
            "int64",
            "Time of the window in this phase, where the recorder knows it; else 0.",
            "ns",
        ),
        Column("mean_gap_ns", "int64", "Mean time from one sample to the next.", "ns"),
        Column(
            "late_ns",
            "int64",
            "Sum of the times by which samples came later than intended: a call into C that held "
            "the interpreter's lock, or a busy core.",
            "ns",
        ),
    ),
)

NAMED_CALLS = Table(
    "named_calls",
    "One call on one rank whose name and times are exact, beside the samples: a garbage "
    "collection, a checkpoint, an evaluation, a recompilation.",
    (
        *_WINDOW[:3],
        Column("step", "int64", "Number of the step within its segment, from 0; -1 outside steps."),
        Column(
            "name",
            "category",
            "`garbage collection`, `torch.save`, `evaluation`, `torch.compile recompilation`, "
            "`cudaMalloc retry` ...",
        ),
        Column("start_ns", "int64", "Start on rank 0's monotonic clock.", "ns"),
        Column(
            "duration_ns", "int64", "Length; 0 where only the moment of a sample is known.", "ns"
        ),
        Column("file", "category", "File of the user's line that called it; empty if unknown."),
        Column("line", "int32", "Its number, from 1; 0 where unknown."),
        Column("detail", "category", "What it was about: the generation that was collected."),
    ),
)

LINE_TABLES = (LINE_SAMPLES, LINE_SAMPLING, NAMED_CALLS)

OTHER_RANKS, USUAL_STEPS, BASELINE = "other ranks", "usual steps", "baseline"
ALONE, EXACT = "alone", "exact"
"""What a line is held against: alone where against nothing; exact calls are no samples."""

IDLE_LEAVES = (
    *("multiprocessing/", "_utils/worker.py", "_utils/pin_memory.py", "selectors.py"),
    *("threading.py", "queue.py", "socket.py"),
)
"""Parts of leaves in which a rank waits for others, and a worker for its next batch."""

LEAST_SAMPLES = 5
"""Lines with fewer samples are not named: too few samples."""

_LINE = (
    Column("file", "str", "File of the user's code, as recorded; empty where none of it ran."),
    Column("line", "int64", "Line of the file, from 1; 0 without a file."),
    Column("function", "str", "Its function, with its class where there is one."),
    Column(
        "leaf",
        "str",
        "Innermost function below it in most samples, where it is not the user's; `other` of rare "
        "lines together.",
    ),
)
LINES = Table(
    "lines",
    "Time of one line of code in one phase of the steady steps of a rank, from samples: the share "
    "of the samples of the phase, with the 95 % interval of Wilson, of the time of the phase.",
    (
        Column("pass_id", "category", _PASS),
        Column("segment", "category", _SEGMENT),
        Column("rank", "int64", _RANK),
        Column("process", "str", "`main`, or `worker`: the rank's DataLoader workers."),
        Column("phase", "str", "Phase of the step; `outside` of a worker."),
        *_LINE,
        Column("samples", "int64", "Samples of the line.", "samples"),
        Column(
            "time_ns",
            "float64",
            "Time per step, waits included; NaN below 5 samples. Of workers: of all together.",
            "ns",
        ),
        Column("time_low_ns", "float64", "Lower end of its 95 % interval.", "ns"),
        Column("time_high_ns", "float64", "Upper end of its 95 % interval.", "ns"),
        Column(
            "excess_ns",
            "float64",
            "Time per step less the mean of the other ranks in the same phase of the launch; NaN "
            "of one rank, and below 5 samples.",
            "ns",
        ),
        Column("excess_low_ns", "float64", "Lower end of its 95 % interval (MOVER).", "ns"),
        Column("excess_high_ns", "float64", "Upper end of its 95 % interval (MOVER).", "ns"),
    ),
)
LINE_CAUSES = Table(
    "line_causes",
    "A line of code that explains a cause of WATERFALL: it takes significantly longer there (1 %, "
    "corrected for the number of lines by Holm's method), or an exact call fills its events.",
    (
        *CELL_COLUMNS,
        Column("cause_id", "str", "`cause_id` of the row of WATERFALL in that cell."),
        Column("ranks", "str", "The ranks whose samples these are; all, or such as 1, 3."),
        Column("process", "str", "`main`, or `worker`: the ranks' DataLoader workers."),
        Column(
            "against",
            "str",
            "What it is held against: other ranks, usual steps (of the same ranks, for delays now "
            "and then), baseline, alone (nothing: the share of workers), or exact (a call with "
            "exact times, `leaf`).",
        ),
        *_LINE,
        Column("samples", "int64", "Samples of the line, or exact calls.", "samples"),
        Column(
            "excess_ns",
            "float64",
            "Time per step, or per event, beyond what it is held against; alone and exact: whole.",
            "ns",
        ),
        Column("excess_low_ns", "float64", "Lower end of its 95 % interval.", "ns"),
        Column("excess_high_ns", "float64", "Upper end of its 95 % interval.", "ns"),
        Column(
            "share",
            "float64",
            "`excess_ns` divided by the delay of the cause; of a worker line alone, its share of "
            "the busy samples; NaN where prefetching hides a part.",
            "ratio",
        ),
        Column("num_events", "Int64", "Events with the line; missing of what lasts."),
        Column("of_events", "Int64", "Events with samples or calls; missing of what lasts."),
    ),
)
CODE_LINE_TABLES: tuple[Table, ...] = (LINES, LINE_CAUSES)
