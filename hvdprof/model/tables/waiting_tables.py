"""Tables of waiting between ranks: who costs whom how much, and the clock error that limits it."""

from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.run_tables import PASS, SEGMENT

_RANK = Column("rank", "int64", "Rank as `hvd.rank()` returns it.")
TIMELINE_WRITER = "timeline-writer"
PATTERNS: dict[str, str] = {
    "persistent": "late in most steps",
    "from-step": "late in most steps from one step on",
    "for-a-while": "late in most steps from one step to another one",
    "growing": "later and later over the launch",
    "periodic": "late in every k-th step",
    "irregular": "late in some steps without a period, far more than the others",
    "rotating": "rotating stragglers (jitter): any rank, no one more than the others",
    TIMELINE_WRITER: "rank 0 is late while Horovod's timeline is on, whose writer takes a core: no "
    "straggler",
    "none": "lateness not significant, or below 5 % of the step",
}
"""Straggler patterns, the values of ``STRAGGLERS.pattern``."""

LASTING_PATTERNS: tuple[str, ...] = ("persistent", "from-step", "for-a-while", "growing")
"""Patterns of ranks that are slower in consecutive steps, in contrast to single late steps."""

STRAGGLER_PATTERNS: tuple[str, ...] = (*LASTING_PATTERNS, "periodic", "irregular")
"""Patterns of ranks that are named as stragglers."""

CLOCKS = Table(
    "clocks",
    "Error of one rank's clock against rank 0's after alignment, in one launch.",
    (
        PASS,
        SEGMENT,
        _RANK,
        Column("exchange_error_ns", "int64", "Error bound of the clock exchange.", "ns"),
        Column(
            "offset_low_ns",
            "float64",
            "Smallest remaining correction of the rank's times, bounded by clock exchange and "
            "collectives. Waiting is computed from times corrected by the middle of low and high.",
            "ns",
        ),
        Column(
            "offset_high_ns", "float64", "Largest remaining correction of the rank's times.", "ns"
        ),
        Column(
            "u_ns",
            "float64",
            "Clock error u, half of that interval: no wait below 2u is attributed to a rank.",
            "ns",
        ),
        Column(
            "consistent",
            "bool",
            "Clock exchange and collectives agree; otherwise u is that of the exchange.",
        ),
    ),
)
COLLECTIVE_ARRIVALS = Table(
    "collective_arrivals",
    "One gradient in one recorded step, warm-up included: ready times on the first and the last "
    "rank, corrected by `clocks`.",
    (
        PASS,
        SEGMENT,
        Column("step", "int64", "Number of the step within its segment, from 0."),
        Column("tensor", "category", "Name of the request as Horovod knows it."),
        Column("num_ranks", "int64", "Ranks with a ready time in this step."),
        Column("first_ns", "int64", "Ready time on the first rank, on rank 0's clock.", "ns"),
        Column("second_last_ns", "int64", "Ready time on the second-last rank.", "ns"),
        Column("last_ns", "int64", "Ready time on the last rank.", "ns"),
        Column("last_rank", "int64", "The rank with the last ready time."),
        Column("wait_sum_ns", "int64", "Sum over ranks of the wait for the last rank.", "ns"),
        Column(
            "decided",
            "bool",
            "The gap between the last two ranks exceeds the sum of their clock errors.",
        ),
    ),
)
CAUSED_WAIT = Table(
    "caused_wait",
    "Wait that one rank caused on the others in one launch, per step. Wait: time between a rank's "
    "arrival at `synchronize()` and the arrival of the last rank.",
    (
        PASS,
        SEGMENT,
        _RANK,
        Column("num_steps", "int64", "Steady steps analysed."),
        Column(
            "share_last",
            "float64",
            "Share of steps in which the rank arrived last by more than the clock error.",
            "ratio",
        ),
        Column(
            "share_undecided",
            "float64",
            "Share of steps without a decided last rank (gap below the clock error).",
            "ratio",
        ),
        Column(
            "waited_ns", "float64", "Wait of the rank itself for the last rank, per step.", "ns"
        ),
        Column(
            "wait_as_last_ns",
            "float64",
            "Wait as last rank, per step: gap between the second-last arrival and its own; 0 in "
            "steps in which the rank is not last.",
            "ns",
        ),
        Column(
            "caused_wait_ns",
            "float64",
            "Wait caused (Shapley), per step: each gap between two arrivals costs gap x waiting "
            "ranks, split equally among the ranks still missing. Sums over ranks to all waiting.",
            "ns",
        ),
        Column(
            "cost_ns",
            "float64",
            "Step-time cost, per step: the sum of `rank_costs` over the phases, 0 at least. Over "
            "the ranks it sums to what their differences add to the step. NaN without an account.",
            "ns",
        ),
        Column("cost_share", "float64", "`cost_ns` divided by the step time.", "ratio"),
    ),
)
STRAGGLERS = Table(
    "stragglers",
    "Lateness of one rank in one launch: its time from release to arrival, on its own clock, minus "
    "the median of the other ranks in the same step.",
    (
        PASS,
        SEGMENT,
        _RANK,
        Column(
            "pattern",
            "str",
            "persistent, from-step, for-a-while, growing, periodic, irregular, rotating, "
            "timeline-writer (rank 0 writes the timeline) or none.",
        ),
        Column(
            "phase",
            "str",
            "Phase of the delay: data, forward, backward, before_update (from the end of backward "
            "to the update), optimizer, outside (all phases), evaluation (the same, of a rank that "
            "evaluates while others do not), or mixed (no single phase); empty without a "
            "straggler, and of jitter without single stalls.",
        ),
        Column("phase_share", "float64", "Share of the delay in this phase.", "ratio"),
        Column("period_steps", "float64", "Period in steps; NaN unless it is periodic."),
        Column(
            "num_events",
            "int64",
            "Delays of the rank, consecutive steps as one; late steps of those that last.",
        ),
        Column("first_step", "Int64", "First affected step; missing without a delay."),
        Column("share_last", "float64", "Share of steps in which the rank is last.", "ratio"),
        Column("share_last_low", "float64", "Lower end of the 95 % interval (Wilson).", "ratio"),
        Column("share_last_high", "float64", "Upper end of the 95 % interval (Wilson).", "ratio"),
        Column(
            "share_late",
            "float64",
            "Share of steps with a lateness of 5 % of the step or more.",
            "ratio",
        ),
        Column("longest_run", "int64", "Longest run of consecutive late steps."),
        Column("lateness_ns", "float64", "Mean lateness; negative where the rank is early.", "ns"),
        Column("lateness_low_ns", "float64", "Lower end of the 95 % interval.", "ns"),
        Column("lateness_high_ns", "float64", "Upper end of the 95 % interval.", "ns"),
        Column(
            "lateness_when_late_ns",
            "float64",
            "Mean lateness over the late steps; NaN without late steps.",
            "ns",
        ),
        Column("cost_ns", "float64", "As in `caused_wait`.", "ns"),
        Column("cost_share", "float64", "As in `caused_wait`.", "ratio"),
    ),
)
LATENESS = Table(
    "lateness",
    "Lateness of one rank in one steady step: its time from release to arrival, on its own clock, "
    "minus the median of the other ranks in the same step.",
    (
        PASS,
        SEGMENT,
        Column("step", "int64", "Number of the step within its segment, from 0."),
        _RANK,
        Column("lateness_ns", "float64", "Lateness; negative where the rank is early.", "ns"),
    ),
)
WAITING_TABLES: tuple[Table, ...] = (CLOCKS, COLLECTIVE_ARRIVALS, CAUSED_WAIT, STRAGGLERS, LATENESS)
RANK_COSTS = Table(
    "rank_costs",
    "What each rank costs in each phase of the steps of one launch, per step. With `shared_ns` "
    "of each phase once, the costs of all ranks, and the transfer, they sum to the step time.",
    (
        Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        Column("rank", "int64", "Rank as `hvd.rank()` returns it."),
        Column(
            "phase",
            "str",
            "data, forward, backward, before_update (from the end of backward to the update), "
            "optimizer, outside (all phases), evaluation; mixed without phases.",
        ),
        Column("own_ns", "float64", "Time of the rank in the phase, without waits.", "ns"),
        Column(
            "later_ns",
            "float64",
            "That time less the median of the other ranks in the same step; negative where the "
            "rank is faster.",
            "ns",
        ),
        Column("later_share", "float64", "`later_ns` divided by the step time.", "ratio"),
        Column(
            "shared_ns",
            "float64",
            "What at least half of the ranks spend there in the same step; equal for all ranks.",
            "ns",
        ),
        Column(
            "cost_ns",
            "float64",
            "What its time beyond the shared one adds to the step: the Shapley value among all "
            "ranks, split over phases in proportion.",
            "ns",
        ),
        Column("cost_share", "float64", "`cost_ns` divided by the step time.", "ratio"),
        Column(
            "saved_if_removed_ns",
            "float64",
            "What the step would lose without that time beyond the shared one, all else as it is.",
            "ns",
        ),
    ),
)
