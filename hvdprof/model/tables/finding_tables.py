"""What is found wrong: by analyses of a run, and by `hvdprof watch` while the job ran."""

from hvdprof.model.schema import Column, Table
from hvdprof.rundir.recording.stall_format import EventKind

SEVERITIES: tuple[str, ...] = ("error", "warning", "note")
"""From worst: the job fails or loses a fifth of the step; it costs speed; it is worth knowing."""

NETWORK_RULES: tuple[str, ...] = ("slow-host-link", "far-host")
"""Rules on the measurement of the network alone, whose cost to the job is unknown."""

FINDINGS = Table(
    "findings",
    "Each row is a problem or an anomaly: title, evidence, cost, potential gain and action.",
    (
        Column("id", "category", "Name of the rule, such as nccl-p2p-disabled; does not vary."),
        Column("severity", "category", "error, warning or note."),
        Column("subject", "category", "What it is about: a host, a rank, a variable."),
        Column("title", "str", "The problem in at most 8 words besides numbers."),
        Column("phrase", "str", "The title inside a sentence: straggler (rank 1, data phase)."),
        Column("evidence", "str", "What was measured, with 95 % intervals: plain sentences."),
        Column("lead", "str", "How a verdict begins that states it; empty where none does."),
        Column("quote", "str", "Log line or setting that shows it, verbatim; else empty."),
        Column("file", "category", "File of the quote; empty where none."),
        Column("line", "Int64", "Line of the quote, from 1; missing where none."),
        Column("action", "str", "How to fix it: the command or setting to try comes first."),
        Column("fix", "str", "Its first step as a clause, for the headline."),
        Column("command", "str", "What of it can be copied; empty without a command."),
        Column(
            "cause_id",
            "str",
            "`cause_id` of the row of WATERFALL in that cell that it is about; empty without one.",
        ),
        Column("code_file", "str", "File of the line of code that explains it; empty without one."),
        Column("code_line", "Int64", "That line, from 1; missing without one."),
        Column("code_function", "str", "Its function, or the call there; empty without a line."),
        Column("confidence", "category", "certain, likely or possible."),
        Column("model", "str", "Model of the cell it is about; empty where of the whole run."),
        Column("np", "Int64", "Ranks of that cell; missing where of the whole run."),
        Column("engine", "str", "Engine of that cell; empty where of the whole run."),
        Column("cost_ns", "float64", "Cost per step; NaN where unknown.", "ns"),
        Column("cost_low_ns", "float64", "Its 95 % interval; NaN where unknown.", "ns"),
        Column("cost_high_ns", "float64", "Upper end.", "ns"),
        Column("cost_share", "float64", "Cost divided by the step time of the cell.", "ratio"),
        Column(
            "gain_share",
            "float64",
            "Potential gain: upper bound of the share of the step that a fix saves (replay); NaN "
            "where unknown.",
            "ratio",
        ),
        Column(
            "job_share",
            "float64",
            "Cost outside the steps, such as in evaluations, divided by the recorded time of the "
            "job; NaN for other costs.",
            "ratio",
        ),
    ),
)

_COLUMNS = (
    Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
    Column("number", "int64", "Number of the event in the pass, from 0."),
    Column("event", "category", f"One of {', '.join(EventKind)}."),
    Column("segment", "category", "Id of the segment; empty where unknown."),
    Column("rank", "int32", "The rank that it is about, the first of several; -1 for all."),
    Column("host", "category", "Host of the rank; empty where unknown."),
    Column("phase", "category", "Phase in which most of it lies; empty where unknown."),
    Column("place", "category", "Sampled line of code; empty where unknown."),
    Column("first_step", "int64", "Number of the step in which it began; -1 where unknown."),
    Column(
        "last_step", "int64", "Number of the step after which it was over; -1 if no end was seen."
    ),
    Column("since_ns", "int64", "Wall clock when it began.", "ns"),
    Column("seen_ns", "int64", "Wall clock when it was reported.", "ns"),
    Column("over_ns", "int64", "Wall clock when it was over; -1 if no end was seen.", "ns"),
    Column(
        "cost_ns",
        "int64",
        "What it cost the job per step, as reported, 0 where unknown; of an evaluation or a "
        "checkpoint, by how much it was longer than usual.",
        "ns",
    ),
    Column("step_ns", "int64", "Length of a step meanwhile; 0 where unknown.", "ns"),
    Column("text", "category", "The sentence that was reported."),
    Column(
        "share",
        "float64",
        "Share of `place` in the samples of the phase that the rank took when it was named; NaN "
        "without them.",
        "ratio",
    ),
    Column(
        "files",
        "category",
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
            "confirmed or refuted by the recorded steps of the event (the 95 % interval of the "
            "lateness lies above 0, or below 5 % of the step), undecided, or empty: not a "
            "straggler, or no steps.",
        ),
        Column("late_ns", "float64", "Recorded lateness of the rank per step; NaN without.", "ns"),
        Column("late_low_ns", "float64", "Lower end of its 95 % interval.", "ns"),
        Column("late_high_ns", "float64", "Upper end.", "ns"),
    ),
)
