"""What `hvdprof watch` saw while the job ran, and what the whole recording says of it."""

from hvdprof.model.schema import Column, Table
from hvdprof.rundir.recording.stall_format import EventKind

_COLUMNS = (
    Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
    Column("number", "int64", "", "Number of the event in the pass, from 0."),
    Column("event", "category", "", f"One of {', '.join(EventKind)}."),
    Column("segment", "category", "", "Id of the segment; empty where unknown."),
    Column("rank", "int32", "", "The rank that it is about, the first of several; -1 for all."),
    Column("host", "category", "", "Host of the rank; empty where unknown."),
    Column("phase", "category", "", "Phase in which most of it lies; empty where unknown."),
    Column("place", "category", "", "Sampled line of code; empty where unknown."),
    Column("first_step", "int64", "", "Number of the step in which it began; -1 where unknown."),
    Column(
        "last_step",
        "int64",
        "",
        "Number of the step after which it was over; -1 if no end was seen.",
    ),
    Column("since_ns", "int64", "ns", "Wall clock when it began."),
    Column("seen_ns", "int64", "ns", "Wall clock when it was reported."),
    Column("over_ns", "int64", "ns", "Wall clock when it was over; -1 if no end was seen."),
    Column(
        "cost_ns",
        "int64",
        "ns",
        "What it cost the job per step, as reported, 0 where unknown; of an evaluation or a "
        "checkpoint, by how much it was longer than usual.",
    ),
    Column("step_ns", "int64", "ns", "Length of a step meanwhile; 0 where unknown."),
    Column("text", "category", "", "The sentence that was reported."),
    Column(
        "share",
        "float64",
        "ratio",
        "Share of `place` in the samples of the phase that the rank took when it was named; NaN "
        "without them.",
    ),
    Column(
        "files",
        "category",
        "",
        "What ranks wrote when it was named, in the folder of the recorder files.",
    ),
)

WATCHED_EVENTS = Table(
    "watched_events", "An event that a watcher reported while the ranks ran.", _COLUMNS
)

LIVE_EVENTS = Table(
    "live_events",
    "The same, with what the recorded steps say of a straggler.",
    (
        *_COLUMNS,
        Column(
            "outcome",
            "category",
            "",
            "confirmed or refuted by the recorded steps of the event (the 95 % interval of the "
            "lateness lies above 0, or below 5 % of the step), undecided, or empty: not a "
            "straggler, or no steps.",
        ),
        Column("late_ns", "float64", "ns", "Recorded lateness of the rank per step; NaN without."),
        Column("late_low_ns", "float64", "ns", "Lower end of its 95 % interval."),
        Column("late_high_ns", "float64", "ns", "Upper end."),
    ),
)
