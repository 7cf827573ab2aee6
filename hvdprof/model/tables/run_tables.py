"""The tables of a run and of its analysis; ``catalogue`` lists those of all modules."""

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.schema import Column, Table

_PASS = Column("pass_id", "category", "", "Folder name of the pass, as in the manifest.")
_SEGMENT = Column("segment", "category", "", "Id of the segment within the pass, as in the plan.")
_RANK = Column("rank", "int32", "", "Rank as `hvd.rank()` returns it.")
_STEP = Column(
    "step", "int64", "", "Number of the step within its segment, from 0; -1 outside steps."
)
_START = Column("start_ns", "int64", "ns", "Start on rank 0's monotonic clock.")
_CLOCK_ERROR = Column(
    "clock_error_ns",
    "int64",
    "ns",
    "Largest error of the alignment of this rank's clock to rank 0's.",
)

SEGMENTS = Table(
    "segments",
    "One segment of one pass: a model with its toggles, trained in one launch.",
    (
        _PASS,
        _SEGMENT,
        Column("mode", "category", "", "Way of measuring: throughput, trace or attribution."),
        Column("repeat", "int32", "", "Number of the repeat, from 1."),
        Column("engine", "category", "", "horovod, ddp, or torch for plain PyTorch alone."),
        Column("model", "category", "", "Name of the reference model."),
        Column("size", "int32", "", "Number of ranks, as `hvd.size()` returns it."),
        Column("compression", "category", "", "Gradient compression: none or fp16."),
        Column("reduction", "category", "", "Reduction of the gradients: average or adasum."),
        Column("batch_size", "int64", "samples", "Samples per rank and step."),
        Column("image_size", "int64", "pixels", "Edge of the square input image."),
        Column(
            "status", "category", "", "planned, done, failed or interrupted, from the manifest."
        ),
        Column("num_ranks_recorded", "int32", "", "Ranks whose recorder file holds this segment."),
        Column("num_tensors", "int64", "", "Gradient tensors that the recorder watched on rank 0."),
        Column("gradient_bytes", "int64", "bytes", "Size of all gradients before compression."),
        Column("sent_bytes", "int64", "bytes", "Size of all gradients after compression."),
        Column("oversubscribed", "bool", "", "More ranks than cores (or GPUs) on a host."),
        Column("pinned", "bool", "", "Each rank had cores of its own."),
    ),
)

STEPS = Table(
    "steps",
    "One optimizer step on one rank, from its recorder file.",
    (
        _PASS,
        _SEGMENT,
        _RANK,
        _STEP,
        Column("warmup", "bool", "", "Belongs to the counted warm-up batches."),
        _START,
        Column("dur_ns", "int64", "ns", "Length of the step."),
        Column("data_ns", "int64", "ns", "Time in the data phase."),
        Column("forward_ns", "int64", "ns", "Time in the forward phase, the loss included."),
        Column("backward_ns", "int64", "ns", "Time in the backward phase."),
        Column(
            "blocked_ns",
            "Int64",
            "ns",
            "Time the rank stood in `synchronize()` for reduced gradients (blocking exposed "
            "communication), or under DDP at the end of `backward()`; includes waiting for a late "
            "rank and decompression. Missing where nobody saw it.",
        ),
        Column("optimizer_ns", "int64", "ns", "Local parameter update, blocked time excluded."),
        Column("other_ns", "int64", "ns", "Rest of the step, outside every phase, or not seen."),
        Column("samples", "int64", "samples", "Samples this rank trained on in the step."),
        Column("loss", "float64", "", "Training loss of this rank; NaN where not recorded."),
        _CLOCK_ERROR,
    ),
)

ARRIVALS = Table(
    "arrivals",
    "One gradient on one rank in one step: when backward had produced it.",
    (
        _PASS,
        _SEGMENT,
        _RANK,
        _STEP,
        Column("tensor", "category", "", "Name of the request as Horovod knows it."),
        Column(
            "ready_ns", "int64", "ns", "When the gradient was ready, on rank 0's monotonic clock."
        ),
        _CLOCK_ERROR,
    ),
)

EVENTS = Table(
    "events",
    "One interval or instant on one rank. Durations and bytes count once per `fusion_id`, never "
    "once per tensor.",
    (
        _PASS,
        _SEGMENT,
        Column(
            "source",
            "category",
            "",
            "Producer: recorder, or timeline; that of DDP is what its communication hook recorded.",
        ),
        _RANK,
        Column(
            "step",
            "int64",
            "",
            "Number of the step within its segment, from 0; -1 outside steps. That of "
            "`inferred_steps` in files beside which nobody recorded steps.",
        ),
        Column(
            "phase",
            "category",
            "",
            "negotiation, operation or activity of Horovod; phantom for a negotiation that no "
            "operation followed (a joined rank answers for every cached tensor), which is no use "
            "of the tensor; part of a recorded step; mark for instants.",
        ),
        Column(
            "activity",
            "category",
            "",
            "The producer's own name, verbatim. The mark `1` of a tensor is Horovod's note that "
            "rank 1 of the tensor's process set was ready, as rank 0 saw it.",
        ),
        Column("collective", "category", "", "ALLREDUCE, ADASUM, BROADCAST ...; empty where none."),
        Column("tensor", "category", "", "Name of the tensor as in the file; empty where none."),
        Column(
            "occurrence", "int64", "", "How often this tensor was used before in this file, from 0."
        ),
        Column(
            "fusion_id",
            "int64",
            "",
            "Same number for all operation and activity rows of one fused execution; -1 on all "
            "others.",
        ),
        _START,
        Column(
            "dur_ns",
            "int64",
            "ns",
            "Length; 0 for an instant, -1 where the end is not in the file.",
        ),
        Column(
            "size_bytes",
            "Int64",
            "bytes",
            "Payload of the tensor after compression, on rows of phase operation; missing where "
            "unknown and on all others.",
        ),
        _CLOCK_ERROR,
    ),
)

RANKS = Table(
    "ranks",
    "One rank of one pass, from the header of its recorder file.",
    (
        _PASS,
        _RANK,
        Column("local_rank", "int32", "", "Rank within its host, as `hvd.local_rank()`."),
        Column("hostname", "category", "", "Host of the rank."),
        Column("device", "category", "", "cpu, or cuda with the index of the GPU."),
        Column("pid", "int64", "", "Process id on its host."),
        Column("num_threads", "int64", "", "Threads that torch used; -1 where unknown."),
        Column("num_affinity_cores", "int64", "", "Cores it was allowed on; 0 where unknown."),
        Column(
            "clock_method",
            "category",
            "",
            "How its clock was aligned to rank 0's: same-clock, tcp, wall-clock or none.",
        ),
        Column("clock_offset_ns", "int64", "ns", "Aligned time less its own, at the start."),
        Column("clock_drift_ppm", "float64", "ppm", "Change of that offset by time."),
        _CLOCK_ERROR,
        Column("ended", "bool", "", "The rank ended on its own; false where it was killed."),
    ),
)

JOB_STEPS = Table(
    "job_steps",
    "One step of the job after the counted warm-up batches: all ranks together.",
    (
        _PASS,
        _SEGMENT,
        _STEP,
        Column("end_ns", "int64", "ns", "When the last rank ended it, on rank 0's clock."),
        Column(
            "dur_ns",
            "int64",
            "ns",
            "Time since the last rank ended the step before; for the first step since the last "
            "rank started it.",
        ),
        Column("steady", "bool", "", "Counts: not cut as warm-up."),
    ),
)

LAUNCHES = Table(
    "launches",
    "One segment of one pass after warm-up was cut: what one launch says about its cell.",
    (
        _PASS,
        _SEGMENT,
        Column("num_steps", "int64", "", "Steady steps that count."),
        Column(
            "num_cut_steps", "int64", "", "Steps cut as warm-up beyond the counted warm-up batches."
        ),
        Column("step_time_ns", "float64", "ns", "Mean time of a step of the job (all ranks)."),
        Column(
            "step_time_error_ns", "float64", "ns", "Standard error of that mean within the launch."
        ),
        Column("num_effective_steps", "float64", "", "Steps after correction for autocorrelation."),
        Column(
            "drift", "float64", "ratio", "Change of the step time over the window, by its mean."
        ),
        Column("drift_error", "float64", "ratio", "Standard error of the drift."),
        Column(
            "steady",
            "bool",
            "",
            "A steady state was found: the warm-up ended within the first half of the steps.",
        ),
    ),
)

SCALING = Table(
    "scaling",
    "One cell of the design: a model at a number of ranks with its toggles, over all its launches "
    "in throughput mode.",
    (
        *CELL_COLUMNS,
        Column("batch_size", "int64", "samples", "Samples per rank and step."),
        Column("samples_per_s", "float64", "samples/s", "Samples of all ranks by time."),
        Column("samples_per_s_low", "float64", "samples/s", "Lower end of the 95 % interval."),
        Column("samples_per_s_high", "float64", "samples/s", "Upper end of the 95 % interval."),
        Column("step_time_median_ns", "float64", "ns", "Median time of a step of the job."),
        Column("step_time_p95_ns", "float64", "ns", "95th percentile of the time of a step."),
        Column(
            "efficiency",
            "float64",
            "ratio",
            "Scaling efficiency against `baseline`; above 1 is legal.",
        ),
        Column("efficiency_low", "float64", "ratio", "Lower end of the 95 % interval."),
        Column("efficiency_high", "float64", "ratio", "Upper end of the 95 % interval."),
        Column(
            "karp_flatt",
            "float64",
            "ratio",
            "Serial fraction after Karp and Flatt, against the size of the baseline; NaN at it.",
        ),
        Column(
            "baseline",
            "str",
            "",
            "What the efficiency refers to, such as `torch np=1`; a baseline names itself and has "
            "efficiency 1 without an interval.",
        ),
        Column(
            "blocked_ns",
            "float64",
            "ns",
            "Exposed communication: mean time a rank stands still for the others a step.",
        ),
        Column("blocked_share", "float64", "ratio", "The same by the mean step time."),
        Column(
            "observer_cost",
            "float64",
            "ratio",
            "Step time in the trace pass over the throughput pass, less 1.",
        ),
        Column("observer_cost_low", "float64", "ratio", "Lower end of the 95 % interval."),
        Column("observer_cost_high", "float64", "ratio", "Upper end of the 95 % interval."),
        Column(
            "final_loss",
            "float64",
            "",
            "Mean loss of all ranks over the last tenth of the samples that every cell of the "
            "model has seen.",
        ),
        Column(
            "sent_bytes",
            "int64",
            "bytes",
            "Gradient bytes a rank hands over a step, after compression.",
        ),
        Column("num_launches", "int64", "", "Launches that count."),
        Column("num_steps", "int64", "", "Steady steps over all launches."),
        Column(
            "oversubscribed",
            "bool",
            "",
            "More ranks than cores (or GPUs): kept out of scaling statements.",
        ),
        Column("pinned", "bool", "", "Each rank had cores of its own."),
    ),
)

LOSSES = Table(
    "losses",
    "One part of the step time that a cell has more of than its baseline; the parts of a cell sum "
    "to the whole difference.",
    (
        *CELL_COLUMNS,
        Column(
            "part",
            "str",
            "",
            "data, forward, backward, blocked, optimizer, other (outside every phase) or residual "
            "(time of the job's step that is not in the mean step of its ranks).",
        ),
        Column(
            "lost_ns",
            "float64",
            "ns",
            "More time a step than the baseline needs for as many samples a rank; negative where "
            "less.",
        ),
        Column(
            "lost_share",
            "float64",
            "ratio",
            "The same by the step time of the cell: points of efficiency. The parts of a cell sum "
            "to 1 less its efficiency.",
        ),
    ),
)
