"""Tables of recorded times that are no single steps: windows of steps, and evaluations.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from collections.abc import Iterator

from hvdprof.model.schema import Column, Table

_PARTS = {
    "step": "Length of a step",
    "data": "Time in the data phase",
    "forward": "Time in the forward phase",
    "backward": "Time in the backward phase",
    "before_update": "Time from the end of backward to the update, outside other phases",
    "optimizer": "Local parameter update",
    "blocked": "Blocked time; missing where the recorder cannot measure it",
}
_SPREAD = {
    "sum": "sum over the steps of the window.",
    "median": "median of the steps.",
    "p95": "95th percentile of the steps.",
    "max": "largest of a step.",
}
EVALUATIONS = Table(
    "evaluations",
    "One evaluation of one rank: its forward passes without training between two updates, or "
    "after the last. In a light recording those that have a window of their own, and the last.",
    (
        Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        Column("rank", "int32", "", "Rank as `hvd.rank()` returns it."),
        Column(
            "step",
            "int64",
            "",
            "Number of the step that it lies in; after the last step, that number plus 1.",
        ),
        Column(
            "start_ns", "int64", "ns", "Where the step before ended, on rank 0's monotonic clock."
        ),
        Column("dur_ns", "int64", "ns", "Time from there to the end of its last forward pass."),
        Column(
            "blocked_ns",
            "Int64",
            "ns",
            "Blocked in this time, such as in metrics that are reduced per batch. Missing where "
            "the recorder cannot measure it, and in recordings of earlier versions.",
        ),
        Column(
            "rest_ns",
            "int64",
            "ns",
            "After the last step: time from the last forward pass to the end of the last wait, "
            "such as in a metric that is reduced. 0 for others: it is in their step.",
        ),
        Column("rest_blocked_ns", "Int64", "ns", "Blocked in that time, likewise."),
        Column(
            "after_last",
            "bool",
            "",
            "After the last step of the training, so that no row of `steps` holds it.",
        ),
        Column(
            "clock_error_ns",
            "int64",
            "ns",
            "Largest error of the alignment of this rank's clock to rank 0's.",
        ),
    ),
)


def _spreads() -> Iterator[Column]:
    for part, doc in _PARTS.items():
        dtype = "Int64" if part == "blocked" else "int64"
        for name, of_steps in _SPREAD.items():
            yield Column(f"{part}_{name}_ns", dtype, "ns", f"{doc}: {of_steps}")


WINDOWS = Table(
    "windows",
    "One window of consecutive steps on one rank, in a light recording (`--light`). `steps` holds "
    "the mean steps of the windows that all ranks share.",
    (
        Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        Column("rank", "int32", "", "Rank as `hvd.rank()` returns it."),
        Column("step", "int64", "", "Number of its first step within the segment, from 0."),
        Column("last_step", "int64", "", "Number of its last step."),
        Column("num_steps", "int64", "", "Recorded steps; fewer where some were skipped."),
        Column("warmup", "bool", "", "Warm-up steps, excluded from results."),
        Column("start_ns", "int64", "ns", "Start of the first step on rank 0's monotonic clock."),
        Column("dur_ns", "int64", "ns", "Time from there to the end of the last step."),
        Column("wall_ns", "int64", "ns", "Wall clock of the host after the last step, Unix time."),
        Column("samples", "int64", "samples", "Samples this rank trained on in all its steps."),
        *_spreads(),
        Column("longest_step", "int64", "", "Number of the longest step."),
        Column(
            "longest_phase",
            "category",
            "",
            "Phase of that step that took longer than usual by most; empty without phases.",
        ),
        Column("longest_phase_ns", "int64", "ns", "Time of that step in this phase."),
        Column(
            "longest_blocked_ns",
            "Int64",
            "ns",
            "Blocked time of that step; missing where unknown. The rank with the least of it "
            "delays the others.",
        ),
        Column("loss", "float64", "", "Mean training loss of this rank; NaN where not recorded."),
        Column(
            "clock_error_ns",
            "int64",
            "ns",
            "Largest error of the alignment of this rank's clock to rank 0's.",
        ),
    ),
)
