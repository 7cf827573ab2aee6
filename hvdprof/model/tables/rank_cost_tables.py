"""The table of what each rank costs in each phase.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

RANK_COSTS = Table(
    "rank_costs",
    "What each rank costs in each phase of the steps of one launch, per step. With `shared_ns` "
    "of each phase once, the costs of all ranks, and the transfer, they sum to the step time.",
    (
        Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        Column("rank", "int64", "", "Rank as `hvd.rank()` returns it."),
        Column(
            "phase",
            "str",
            "",
            "data, forward, backward, before_update (from the end of backward to the update), "
            "optimizer, outside (all phases), evaluation; mixed without phases.",
        ),
        Column("own_ns", "float64", "ns", "Time of the rank in the phase, without waits."),
        Column(
            "later_ns",
            "float64",
            "ns",
            "That time less the median of the other ranks in the same step; negative where the "
            "rank is faster.",
        ),
        Column("later_share", "float64", "ratio", "`later_ns` divided by the step time."),
        Column(
            "shared_ns",
            "float64",
            "ns",
            "What at least half of the ranks spend there in the same step; equal for all ranks.",
        ),
        Column(
            "cost_ns",
            "float64",
            "ns",
            "What its time beyond the shared one adds to the step: the Shapley value among all "
            "ranks, split over phases in proportion.",
        ),
        Column("cost_share", "float64", "ratio", "`cost_ns` divided by the step time."),
        Column(
            "saved_if_removed_ns",
            "float64",
            "ns",
            "What the step would lose without that time beyond the shared one, all else as it is.",
        ),
    ),
)
