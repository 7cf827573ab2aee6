"""The tables of step times and scaling: steps of the job, launches, cells and their losses."""

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.schema import Column, Table

_PASS = Column("pass_id", "category", "", "Folder name of the pass, as in the manifest.")
_SEGMENT = Column("segment", "category", "", "Id of the segment within the pass, as in the plan.")
_STEP = Column(
    "step", "int64", "", "Number of the step within its segment, from 0; -1 outside steps."
)

JOB_STEPS = Table(
    "job_steps",
    "One step of the job after the counted warm-up batches: all ranks together. Steps of disturbed "
    "turns are not listed.",
    (
        _PASS,
        _SEGMENT,
        _STEP,
        Column("end_ns", "int64", "ns", "End of the step on the last rank, on rank 0's clock."),
        Column(
            "dur_ns",
            "int64",
            "ns",
            "Time since the last rank ended the previous step; for the first step since the last "
            "rank started it.",
        ),
        Column(
            "num_steps",
            "int64",
            "",
            "1; in a light recording the number of steps whose mean `dur_ns` is.",
        ),
        Column(
            "steady",
            "bool",
            "",
            "Part of the steady state: not excluded as warm-up.",
        ),
    ),
)

LAUNCHES = Table(
    "launches",
    "One launch of one cell: its step time after warm-up.",
    (
        _PASS,
        _SEGMENT,
        Column("num_steps", "int64", "", "Steady steps."),
        Column(
            "num_cut_steps",
            "int64",
            "",
            "Steps excluded as warm-up beyond the counted warm-up batches.",
        ),
        Column(
            "num_turns", "int64", "", "Turns that count; 0 where the launch had the host to itself."
        ),
        Column("step_time_ns", "float64", "ns", "Mean step time of the job (all ranks)."),
        Column(
            "step_time_error_ns", "float64", "ns", "Standard error of that mean within the launch."
        ),
        Column(
            "num_effective_steps",
            "float64",
            "",
            "Effective sample size: steps after correction for autocorrelation.",
        ),
        Column(
            "drift",
            "float64",
            "ratio",
            "Change of the step time over the window, divided by its mean.",
        ),
        Column("drift_error", "float64", "ratio", "Standard error of the drift."),
        Column(
            "steady",
            "bool",
            "",
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
            "samples",
            "Samples per rank and step, the median; missing where not recorded.",
        ),
        Column(
            "batch_size_low",
            "float64",
            "samples",
            "Mean of the steps of the rank that trains fewest samples; 0 where not recorded.",
        ),
        Column(
            "batch_size_high",
            "float64",
            "samples",
            "Mean of the steps of the rank that trains most samples; 0 where not recorded.",
        ),
        Column(
            "samples_per_s", "float64", "samples/s", "Throughput: samples of all ranks per second."
        ),
        Column("samples_per_s_low", "float64", "samples/s", "Lower end of the 95 % interval."),
        Column("samples_per_s_high", "float64", "samples/s", "Upper end of the 95 % interval."),
        Column("step_time_median_ns", "float64", "ns", "Median step time of the job."),
        Column("step_time_p95_ns", "float64", "ns", "95th percentile of the step time."),
        Column(
            "efficiency",
            "float64",
            "ratio",
            "Scaling efficiency against `baseline`; values above 1 are possible.",
        ),
        Column("efficiency_low", "float64", "ratio", "Lower end of the 95 % interval."),
        Column("efficiency_high", "float64", "ratio", "Upper end of the 95 % interval."),
        Column(
            "karp_flatt",
            "float64",
            "ratio",
            "Serial fraction (Karp-Flatt) against the baseline; NaN at the size of the baseline.",
        ),
        Column(
            "baseline",
            "str",
            "",
            "Reference of the efficiency, such as `torch np=1`; a baseline names itself and has "
            "efficiency 1 without an interval. Where no other number of ranks was measured, it has "
            "no efficiency, and no name where no other cell refers to it.",
        ),
        Column(
            "blocked_ns",
            "float64",
            "ns",
            "Blocked, by other ranks or communication: mean time per rank and step.",
        ),
        Column("blocked_share", "float64", "ratio", "`blocked_ns` divided by the mean step time."),
        Column(
            "trace_overhead",
            "float64",
            "ratio",
            "Trace overhead: step time in the trace pass divided by that in the throughput "
            "pass, minus 1.",
        ),
        Column("trace_overhead_low", "float64", "ratio", "Lower end of the 95 % interval."),
        Column("trace_overhead_high", "float64", "ratio", "Upper end of the 95 % interval."),
        Column(
            "final_loss",
            "float64",
            "",
            "Mean loss of all ranks over the last tenth of the samples that every cell of the "
            "model has trained on.",
        ),
        Column(
            "sent_bytes",
            "int64",
            "bytes",
            "Gradient bytes per rank and step, after compression.",
        ),
        Column("num_launches", "int64", "", "Launches in the mean."),
        Column("num_steps", "int64", "", "Steady steps over all launches."),
        Column(
            "oversubscribed",
            "bool",
            "",
            "More ranks than cores (or GPUs): excluded from scaling statements.",
        ),
        Column("pinned", "bool", "", "Each rank was pinned to its own cores."),
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
            "",
            "data, forward, backward, blocked, optimizer, outside (all phases) or residual "
            "(step time of the job minus the mean step of its ranks).",
        ),
        Column(
            "lost_ns",
            "float64",
            "ns",
            "Additional time per step against the baseline for the same number of samples per "
            "rank; negative where less.",
        ),
        Column(
            "lost_share",
            "float64",
            "ratio",
            "`lost_ns` divided by the step time of the cell: points of efficiency. The parts of a "
            "cell sum to 1 minus its efficiency.",
        ),
    ),
)
