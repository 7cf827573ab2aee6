"""Tables of lost time by cause against the baseline, and of the potential gain of remedies."""

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.schema import Column, Table

CAUSE_COLUMNS: tuple[Column, ...] = (
    Column("term", "str", "One of `hvdprof.model.causes.CAUSES`, or residual."),
    Column(
        "ranks",
        "str",
        "Ranks of a straggler, such as 1, 3; any where they differ from event to event; all of a "
        "pause. Of jitter the rank that most of it lies on; of input those that wait longest, or "
        "any where they wait in turn. Else empty.",
    ),
    Column(
        "phase",
        "str",
        "Phase of a straggler or pause: data, forward, backward, before_update (from the end of "
        "backward to the update), optimizer, outside (all phases), mixed (no single phase). Of the "
        "jitter of one rank the phase of most of it, if there is one. Else empty.",
    ),
    Column(
        "pattern",
        "str",
        "Of a straggler or pause: persistent, from-step, for-a-while, growing, periodic, "
        "irregular; else empty.",
    ),
)
"""What names a cause within a cell."""

SURE, SEEN, OPEN = "sure", "seen", "open"
"""How a cause is known: beyond chance; seen, too rarely to be beyond chance; without a name."""

WATERFALL = Table(
    "waterfall",
    "Lost time of a cell by cause. The terms sum to the step time minus that of the baseline for "
    "as many samples; without a baseline, minus the compute of the normal ranks. Negative terms "
    "are gains.",
    (
        *CELL_COLUMNS,
        *CAUSE_COLUMNS,
        Column(
            "cause_id",
            "str",
            "What identifies the row within its cell; findings on it have it as well.",
        ),
        Column("time_ns", "float64", "Time per step that the cause adds (Shapley value).", "ns"),
        Column("time_low_ns", "float64", "Lower end of the 95 % interval over launches.", "ns"),
        Column("time_high_ns", "float64", "Upper end of the 95 % interval over launches.", "ns"),
        Column(
            "share", "float64", "`time_ns` divided by the step time: points of efficiency.", "ratio"
        ),
        Column("share_low", "float64", "Lower end of the 95 % interval over launches.", "ratio"),
        Column("share_high", "float64", "Upper end of the 95 % interval over launches.", "ratio"),
        Column(
            "saved_if_removed_ns",
            "float64",
            "Potential gain: reduction of the step time if this cause alone is removed (replay).",
            "ns",
        ),
        Column(
            "saved_if_removed_share",
            "float64",
            "`saved_if_removed_ns` divided by the step time.",
            "ratio",
        ),
        Column(
            "baseline_ns",
            "float64",
            "Of input, time outside and compute: the time that the baseline spends there for as "
            "many samples; `time_ns` is what the cell spends beyond it. NaN for other causes, and "
            "without another cell as baseline, where input and time outside are whole.",
            "ns",
        ),
        Column(
            "baseline_share",
            "float64",
            "`baseline_ns` divided by the step time of the cell.",
            "ratio",
        ),
        Column(
            "executing_share",
            "float64",
            "Of exposed transfer: share in which a collective executes; the rest is negotiation "
            "and Horovod's cycle. NaN for other causes, without a launch in trace mode, and where "
            "`traced_ns` is less than half or more than twice of `time_ns`.",
            "ratio",
        ),
        Column(
            "copying_share",
            "float64",
            "Of exposed transfer: share in which gradients are copied into and out of the fusion "
            "buffer; a part of `executing_share`.",
            "ratio",
        ),
        Column(
            "traced_ns",
            "float64",
            "Exposed transfer per step in the launches in trace mode, which split it.",
            "ns",
        ),
        Column(
            "phase_share",
            "float64",
            "Share of the delay of a straggler or pause that its phase explains.",
            "ratio",
        ),
        Column("period_steps", "float64", "Steps from event to event of a periodic cause, or NaN."),
        Column(
            "epoch_steps",
            "float64",
            "Of a periodic cause the steps of an epoch where its counter restarts, or NaN.",
        ),
        Column(
            "state",
            "str",
            "Of a straggler or pause: sure (beyond chance, at most 0.3 %) or seen (its events are "
            "there, too few to be beyond chance). Of the jitter of one rank open. Else empty.",
        ),
        Column(
            "chance",
            "float64",
            "Probability that equal ranks give any of them as much; 0 of a pause, else NaN.",
            "ratio",
        ),
        Column(
            "first_step",
            "Int64",
            "First affected step of a straggler or pause, median of the launches.",
        ),
        Column(
            "last_step",
            "Int64",
            "Last affected step of a straggler or pause, median of the launches.",
        ),
        Column(
            "last_delay_ns", "float64", "Delay at the end of a straggler that grows, or NaN.", "ns"
        ),
        Column(
            "num_events",
            "Int64",
            "Events of a straggler or pause in all launches; affected steps of a lasting one.",
        ),
        Column("num_launches", "Int64", "Launches in which a straggler or pause is significant."),
        Column(
            "affected_share",
            "float64",
            "Share of the steps that a straggler or pause delays.",
            "ratio",
        ),
        Column(
            "delay_ns",
            "float64",
            "Mean delay of a straggler or pause in the steps that it affects.",
            "ns",
        ),
    ),
)

DIFFERENCE_TIMES = (
    Column("one_ns", "float64", "Time per step of the term in the first cell.", "ns"),
    Column("other_ns", "float64", "Time per step of the term in the second cell.", "ns"),
    Column("difference_ns", "float64", "`other_ns` minus `one_ns`.", "ns"),
    Column("low_ns", "float64", "Lower end of the 95 % CI; NaN without a CI of both.", "ns"),
    Column("high_ns", "float64", "Upper end of the 95 % CI; NaN without a CI of both.", "ns"),
    Column("significant", "bool", "The 95 % CI is known and does not contain 0."),
)
"""A term in two cells with the difference."""

_DIFFERENCE_COLUMNS = (*CAUSE_COLUMNS, *DIFFERENCE_TIMES)

WATERFALL_DIFF = Table(
    "waterfall_diff",
    "Difference of one cause between the waterfalls of two cells; a straggler or pause of one of "
    "them alone is 0 in the other.",
    _DIFFERENCE_COLUMNS,
)
"""Computed on demand for two cells (``api.waterfall_diff``), so no analysis holds it."""

ENGINE_DIFFS = Table(
    "engine_diffs",
    "Difference of one cause between the waterfalls of Horovod (first) and DDP (second), for the "
    "same model and number of ranks without toggles.",
    (*CELL_COLUMNS[:2], *_DIFFERENCE_COLUMNS),
)

POP = Table(
    "pop",
    "The efficiencies of the POP methodology of one cell; their product is its scaling efficiency.",
    (
        *CELL_COLUMNS,
        Column(
            "compscal", "float64", "Own work of the baseline divided by that of the cell.", "ratio"
        ),
        Column(
            "lb",
            "float64",
            "Load balance: mean own work divided by that of the slowest rank.",
            "ratio",
        ),
        Column(
            "sere",
            "float64",
            "Serialization: own work of the slowest rank divided by ideal time.",
            "ratio",
        ),
        Column(
            "te", "float64", "Transfer: ideal time (perfect network) divided by step time.", "ratio"
        ),
        Column(
            "pe", "float64", "Parallel efficiency: mean own work divided by step time.", "ratio"
        ),
        Column("baseline_pe", "float64", "Parallel efficiency of the baseline.", "ratio"),
        Column("efficiency", "float64", "Scaling efficiency, as in `scaling`.", "ratio"),
        Column(
            "identity_error",
            "float64",
            "compscal * lb * sere * te / baseline_pe minus efficiency: rounding alone.",
            "ratio",
        ),
    ),
)

CEILINGS = Table(
    "ceilings",
    "Potential gain of one remedy: the steps of a cell replayed with that one thing made perfect, "
    "everything else as measured.",
    (
        *CELL_COLUMNS,
        Column("remedy", "str", "One of `hvdprof.model.causes.REMEDIES`."),
        Column("rank", "Int64", "Rank of the remedy; missing where it concerns all ranks."),
        Column("step_time_ns", "float64", "Step time with the remedy.", "ns"),
        Column("saved_ns", "float64", "Potential gain: largest reduction of the step time.", "ns"),
        Column("saved_low_ns", "float64", "Lower end of the 95 % interval over launches.", "ns"),
        Column("saved_high_ns", "float64", "Upper end of the 95 % interval over launches.", "ns"),
        Column("saved_share", "float64", "`saved_ns` divided by the step time.", "ratio"),
        Column(
            "efficiency",
            "float64",
            "Scaling efficiency with the remedy; NaN without a baseline.",
            "ratio",
        ),
        Column(
            "efficiency_gain",
            "float64",
            "Largest increase of efficiency; NaN without a baseline.",
            "ratio",
        ),
    ),
)

REPLAYS = Table(
    "replays",
    "Error of the replay of one launch in trace mode from the ready times of its gradients and the "
    "measured time of its collectives.",
    (
        Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        Column("num_steps", "int64", "Replayed steady steps."),
        Column(
            "phase",
            "str",
            "Phase of Horovod's cycles: marks of the timeline, or uniform where it has none.",
        ),
        Column("step_time_ns", "float64", "Their mean measured step time.", "ns"),
        Column("replayed_ns", "float64", "Their mean replayed step time.", "ns"),
        Column("error_median", "float64", "Median of |replayed - measured| / measured.", "ratio"),
        Column("error_p95", "float64", "95th percentile of the same.", "ratio"),
    ),
)

TOGGLES = Table(
    "toggles",
    "One toggle against the same cell without it, paired by repeat; or DDP against Horovod.",
    (
        *CELL_COLUMNS[:3],
        Column(
            "toggle", "str", "fp16, adasum, or ddp: the cell against the same cell with Horovod."
        ),
        Column("num_pairs", "int64", "Repeats in which both were measured."),
        Column(
            "speedup",
            "float64",
            "Speedup vs. toggle off: throughput with the toggle divided by that without.",
            "ratio",
        ),
        Column(
            "speedup_low",
            "float64",
            "Lower end of the 95 % interval over pairs, corrected for the number of comparisons.",
            "ratio",
        ),
        Column(
            "speedup_high",
            "float64",
            "Upper end of the 95 % interval over pairs, corrected for the number of comparisons.",
            "ratio",
        ),
        Column(
            "sent_bytes_ratio",
            "float64",
            "Gradient bytes sent divided by those without the toggle.",
            "ratio",
        ),
        Column(
            "blocked_saved_ns",
            "float64",
            "Reduction of blocked time per step; negative where more.",
            "ns",
        ),
        Column(
            "own_work_added_ns",
            "float64",
            "Additional own work per rank and step, such as casts.",
            "ns",
        ),
        Column(
            "loss_ratio",
            "float64",
            "Final loss after the same number of samples, divided by that without the toggle.",
            "ratio",
        ),
        Column(
            "samples_to_loss_ratio",
            "float64",
            "Samples to the worse final loss of both, divided by those without the toggle; NaN "
            "where losses do not fall.",
            "ratio",
        ),
        Column("verdict", "str", "pays, costs, no effect, or not comparable."),
        Column(
            "reason", "str", "Why it is not comparable, or what limits the verdict; else empty."
        ),
    ),
)

WATERFALL_TABLES: tuple[Table, ...] = (WATERFALL, POP, CEILINGS, TOGGLES, ENGINE_DIFFS, REPLAYS)
