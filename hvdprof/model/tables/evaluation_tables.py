"""The table of evaluations, whose time is in no step time where all ranks evaluate.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

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
