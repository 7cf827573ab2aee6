"""Tables that tell who waited for whom, and how far the clocks that say so can be trusted."""

from hvdprof.model.schema import Column, Table

_PASS = Column("pass_id", "category", "", "Folder name of the pass, as in the manifest.")
_SEGMENT = Column("segment", "category", "", "Id of the segment within the pass, as in the plan.")
_RANK = Column("rank", "int64", "", "Rank as `hvd.rank()` returns it.")

PATTERNS: dict[str, str] = {
    "persistent": "late in most steps",
    "transient": "late in some steps, far more than the others",
    "rotating": "ranks are late by turns, none more than the others",
    "none": "not late beyond chance, or by less than 5 % of the step",
}
"""How a rank is late, the values of ``STRAGGLERS.pattern``."""

CLOCKS = Table(
    "clocks",
    "How far the clock of one rank may still be off rank 0's after alignment, in one launch.",
    (
        _PASS,
        _SEGMENT,
        _RANK,
        Column("exchange_error_ns", "int64", "ns", "Bound that the clock exchanges give."),
        Column(
            "offset_low_ns",
            "float64",
            "ns",
            "Least time that may still have to be added to the times of the rank, by exchange and "
            "collectives. Waiting is computed from times moved to the middle of low and high.",
        ),
        Column("offset_high_ns", "float64", "ns", "The largest such time."),
        Column(
            "u_ns", "float64", "ns", "Half of that interval: no blame for less than twice this."
        ),
        Column(
            "consistent",
            "bool",
            "",
            "Exchange and collectives can both be true; where not, u is that of the exchange.",
        ),
    ),
)

COLLECTIVE_ARRIVALS = Table(
    "collective_arrivals",
    "One gradient in one recorded step, warm-up included: when the first and the last rank had it "
    "ready, on clocks corrected by `clocks`.",
    (
        _PASS,
        _SEGMENT,
        Column("step", "int64", "", "Number of the step within its segment, from 0."),
        Column("tensor", "category", "", "Name of the request as Horovod knows it."),
        Column("num_ranks", "int64", "", "Ranks that had it ready in this step."),
        Column("first_ns", "int64", "ns", "When the first rank had it ready, on rank 0's clock."),
        Column("second_last_ns", "int64", "ns", "When the last rank but one had it ready."),
        Column("last_ns", "int64", "ns", "When the last rank had it ready."),
        Column("last_rank", "int64", "", "That rank."),
        Column("wait_sum_ns", "int64", "ns", "Sum over ranks of their time until the last one."),
        Column(
            "decided", "bool", "", "The last rank is later by more than both clocks may be off."
        ),
    ),
)

BLAME = Table(
    "blame",
    "What one rank made the others wait in one launch: times between a rank's own arrival at "
    "`synchronize()` and that of the last rank, a step.",
    (
        _PASS,
        _SEGMENT,
        _RANK,
        Column("num_steps", "int64", "", "Steps looked at."),
        Column("share_last", "float64", "ratio", "Share of steps in which it came last, decided."),
        Column(
            "share_undecided", "float64", "ratio", "Share of steps without a decided last rank."
        ),
        Column("waited_ns", "float64", "ns", "Its own waiting for the last rank, a step."),
        Column(
            "counterfactual_ns",
            "float64",
            "ns",
            "What the last arrival would have been earlier without it, a step.",
        ),
        Column(
            "fair_share_ns",
            "float64",
            "ns",
            "Its share of all waiting a step: the time between two arrivals is split among the "
            "ranks that are still missing. The shares of all ranks sum to all waiting.",
        ),
        Column(
            "cost_ns",
            "float64",
            "ns",
            "What a step would take less if it never took longer than the median of the others.",
        ),
        Column("cost_share", "float64", "ratio", "The same by the step time."),
    ),
)

STRAGGLERS = Table(
    "stragglers",
    "Whether and how one rank is late in one launch, against the median of the other ranks in the "
    "same step, from release to arrival by its own clock.",
    (
        _PASS,
        _SEGMENT,
        _RANK,
        Column("pattern", "str", "", "persistent, transient, rotating or none."),
        Column(
            "phase",
            "str",
            "",
            "Where it loses the time: data, forward, backward, optimizer, "
            "pause (outside every phase), or unattributed; empty where it is not late.",
        ),
        Column(
            "phase_share", "float64", "ratio", "Share of the lateness that this phase explains."
        ),
        Column("share_last", "float64", "ratio", "Share of steps in which it came last."),
        Column("share_last_low", "float64", "ratio", "Lower end of the 95 % interval (Wilson)."),
        Column("share_last_high", "float64", "ratio", "Upper end of the 95 % interval (Wilson)."),
        Column(
            "share_late",
            "float64",
            "ratio",
            "Share of steps in which it was late by 5 % of the step or more.",
        ),
        Column("longest_run", "int64", "", "Most steps in a row in which it was that late."),
        Column("lateness_ns", "float64", "ns", "Mean lateness; negative where it is early."),
        Column("lateness_low_ns", "float64", "ns", "Lower end of the 95 % interval."),
        Column("lateness_high_ns", "float64", "ns", "Upper end of the 95 % interval."),
        Column(
            "lateness_when_late_ns",
            "float64",
            "ns",
            "Mean lateness of the steps in which it was late; NaN without such steps.",
        ),
        Column("cost_ns", "float64", "ns", "As in `blame`."),
        Column("cost_share", "float64", "ratio", "As in `blame`."),
        Column(
            "cost_together_ns",
            "float64",
            "ns",
            "What all ranks that are late in the same pattern and phase cost a step together, by "
            "the same replay; NaN where it is not named.",
        ),
        Column("cost_together_share", "float64", "ratio", "The same by the mean step."),
    ),
)

WAITING_TABLES: tuple[Table, ...] = (CLOCKS, COLLECTIVE_ARRIVALS, BLAME, STRAGGLERS)
