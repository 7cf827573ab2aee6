"""The tables of step times and scaling: steps of the job, launches, cells and their losses."""

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.run_tables import PASS, SEGMENT, STEP

JOB_STEPS = Table(
    "job_steps",
    "One step of the job after the counted warm-up batches: all ranks together. Steps of disturbed "
    "turns are not listed.",
    (
        PASS,
        SEGMENT,
        STEP,
        Column("end_ns", "int64", "End of the step on the last rank, on rank 0's clock.", "ns"),
        Column(
            "dur_ns",
            "int64",
            "Time since the last rank ended the previous step; for the first step since the last "
            "rank started it.",
            "ns",
        ),
        Column(
            "num_steps",
            "int64",
            "1; in a light recording the number of steps whose mean `dur_ns` is.",
        ),
        Column("steady", "bool", "Part of the steady state: not excluded as warm-up."),
    ),
)

LAUNCHES = Table(
    "launches",
    "One launch of one cell: its step time after warm-up.",
    (
        PASS,
        SEGMENT,
        Column("num_steps", "int64", "Steady steps."),
        Column(
            "num_cut_steps",
            "int64",
            "Steps excluded as warm-up beyond the counted warm-up batches.",
        ),
        Column(
            "num_turns", "int64", "Turns that count; 0 where the launch had the host to itself."
        ),
        Column("step_time_ns", "float64", "Mean step time of the job (all ranks).", "ns"),
        Column(
            "step_time_error_ns", "float64", "Standard error of that mean within the launch.", "ns"
        ),
        Column(
            "num_effective_steps",
            "float64",
            "Effective sample size: steps after correction for autocorrelation.",
        ),
        Column(
            "drift",
            "float64",
            "Change of the step time over the window, divided by its mean.",
            "ratio",
        ),
        Column("drift_error", "float64", "Standard error of the drift.", "ratio"),
        Column(
            "steady",
            "bool",
            "A steady state was found: warm-up ended within the first half of the steps.",
        ),
    ),
)

SCALING = Table(
    "scaling",
    "One cell of the design: a model at a number of ranks with its toggles, over all its launches "
    "in throughput mode.",
    (
        *CELL_COLUMNS,
        Column(
            "batch_size",
            "Int64",
            "Samples per rank and step, the median; missing where not recorded.",
            "samples",
        ),
        Column(
            "batch_size_low",
            "float64",
            "Mean of the steps of the rank that trains fewest samples; 0 where not recorded.",
            "samples",
        ),
        Column(
            "batch_size_high",
            "float64",
            "Mean of the steps of the rank that trains most samples; 0 where not recorded.",
            "samples",
        ),
        Column(
            "samples_per_s", "float64", "Throughput: samples of all ranks per second.", "samples/s"
        ),
        Column("samples_per_s_low", "float64", "Lower end of the 95 % interval.", "samples/s"),
        Column("samples_per_s_high", "float64", "Upper end of the 95 % interval.", "samples/s"),
        Column("step_time_median_ns", "float64", "Median step time of the job.", "ns"),
        Column("step_time_p95_ns", "float64", "95th percentile of the step time.", "ns"),
        Column(
            "efficiency",
            "float64",
            "Scaling efficiency against `baseline`; values above 1 are possible.",
            "ratio",
        ),
        Column("efficiency_low", "float64", "Lower end of the 95 % interval.", "ratio"),
        Column("efficiency_high", "float64", "Upper end of the 95 % interval.", "ratio"),
        Column(
            "karp_flatt",
            "float64",
            "Serial fraction (Karp-Flatt) against the baseline; NaN at the size of the baseline.",
            "ratio",
        ),
        Column(
            "baseline",
            "str",
            "Reference of the efficiency, such as `torch np=1`; a baseline names itself and has "
            "efficiency 1 without an interval. Where no other number of ranks was measured, it has "
            "no efficiency, and no name where no other cell refers to it.",
        ),
        Column(
            "blocked_ns",
            "float64",
            "Blocked, by other ranks or communication: mean time per rank and step.",
            "ns",
        ),
        Column("blocked_share", "float64", "`blocked_ns` divided by the mean step time.", "ratio"),
        Column(
            "trace_overhead",
            "float64",
            "Trace overhead: step time in the trace pass divided by that in the throughput "
            "pass, minus 1.",
            "ratio",
        ),
        Column("trace_overhead_low", "float64", "Lower end of the 95 % interval.", "ratio"),
        Column("trace_overhead_high", "float64", "Upper end of the 95 % interval.", "ratio"),
        Column(
            "final_loss",
            "float64",
            "Mean loss of all ranks over the last tenth of the samples that every cell of the "
            "model has trained on.",
        ),
        Column(
            "sent_bytes", "int64", "Gradient bytes per rank and step, after compression.", "bytes"
        ),
        Column("num_launches", "int64", "Launches in the mean."),
        Column("num_steps", "int64", "Steady steps over all launches."),
        Column(
            "oversubscribed",
            "bool",
            "More ranks than cores (or GPUs): excluded from scaling statements.",
        ),
        Column("pinned", "bool", "Each rank was pinned to its own cores."),
    ),
)

LOSSES = Table(
    "losses",
    "Additional time of one part of the step against the baseline; the parts of a cell sum to the "
    "whole difference.",
    (
        *CELL_COLUMNS,
        Column(
            "part",
            "str",
            "data, forward, backward, blocked, optimizer, outside (all phases) or residual "
            "(step time of the job minus the mean step of its ranks).",
        ),
        Column(
            "lost_ns",
            "float64",
            "Additional time per step against the baseline for the same number of samples per "
            "rank; negative where less.",
            "ns",
        ),
        Column(
            "lost_share",
            "float64",
            "`lost_ns` divided by the step time of the cell: points of efficiency. The parts of a "
            "cell sum to 1 minus its efficiency.",
            "ratio",
        ),
    ),
)
