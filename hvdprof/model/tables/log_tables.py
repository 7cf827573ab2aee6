"""Tables of job output: Horovod's log, failures, autotuning, throughput."""

from hvdprof.model.schema import Column, Table

FILE = Column("file", "category", "The file, as it was named to hvdprof.")
LINE = Column("line", "int64", "Number of the line in the file, from 1.")
_RANK = Column(
    "rank",
    "Int32",
    "Rank whose process printed the line, from the launcher's or Horovod's own tag; missing "
    "without "
    "either.",
)
PRINTED_TIME = Column(
    "time_ns",
    "Int64",
    "Time printed in the line, as nanoseconds since 1970 of that host's local time (the zone is "
    "not in the log); missing where none is printed.",
    "ns",
)
_NP = Column("np", "Int64", "Number of ranks; missing where the file does not say it.")

FILES = Table(
    "files",
    "One input file, its recognised kind, and how much of it was used.",
    (
        FILE,
        Column("kind", "str", "Kind of the file by its content; parts joined by a comma."),
        Column("size_bytes", "int64", "Size of the file on disk.", "bytes"),
        Column("num_lines", "Int64", "Lines; missing where the file is not read by lines."),
        Column("num_rows", "int64", "Rows from this file in the other tables."),
        Column(
            "left_out",
            "str",
            "Why nothing of the file is used; empty where something is, or nothing is known in it.",
        ),
    ),
)

NOTES = Table(
    "notes",
    "One warning on the input: skipped or unusual content.",
    (
        Column("code", "category", "What the note says: one of the codes below."),
        Column("pass_id", "category", "The pass that it is on; empty where on none."),
        Column("rank", "Int32", "The rank; missing where it is not on one alone."),
        Column("number", "Int64", "How many of what the code names; missing where uncounted."),
        Column("value", "str", "What was found, such as the plan of faults; else empty."),
        Column("note", "str", "One sentence that names the file or the pass."),
    ),
)

HOROVOD_LOG = Table(
    "horovod_log",
    "One line that Horovod's own logging printed.",
    (
        FILE,
        LINE,
        _RANK,
        PRINTED_TIME,
        Column("level", "category", "trace, debug, info, warning, error or fatal, as printed."),
        Column("source", "category", "Source file and line of Horovod; empty where cut off."),
        Column("message", "category", "The text, at most 500 characters, without stall lists."),
    ),
)

STALLS = Table(
    "stalls",
    "One tensor in one stall warning, with one rank that did not submit it (or did).",
    (
        FILE,
        LINE,
        PRINTED_TIME,
        Column("warning", "int64", "Number of the warning in its file, from 0."),
        Column("waited_s", "float64", "Waiting time of the tensor as printed in the warning.", "s"),
        Column(
            "state",
            "category",
            "missing, or ready in the format of Horovod 0.13 and earlier, which lists ready ranks.",
        ),
        Column("stalled_rank", "int32", "The rank that the warning names."),
        Column("tensor", "category", "Name of the tensor."),
        Column("cut", "bool", "Horovod printed only the first names of this rank's list."),
        Column("shutdown", "bool", "Horovod shuts the job down because of this rank."),
    ),
)

INCIDENTS = Table(
    "incidents",
    "One line of a job's output that reports a failure.",
    (
        FILE,
        LINE,
        _RANK,
        PRINTED_TIME,
        Column(
            "kind",
            "category",
            "process-end (of the launcher), later-end (others in torchrun's report), exception, "
            "internal-error, shutdown, background-loop, stall, stall-setting, cache-eviction, "
            "timeline-file, mpi, out-of-memory, usage (the script rejects its arguments), "
            "nccl-tests, nccl-error, network-timeout, rendezvous (of Gloo), crash (of the process "
            "itself), cancelled (by Slurm), job-end (a launcher that names no rank) or adasum (a "
            "warning of Horovod's).",
        ),
        Column(
            "failed_rank",
            "Int32",
            "Rank that the line names as the cause; missing where it names none.",
        ),
        Column("exit_code", "Int32", "Exit code that the line names; missing where none."),
        Column("signal", "Int32", "Signal number that the line names; missing where none."),
        Column("host", "category", "Host of the process in torchrun's report; else empty."),
        Column("failed_at", "str", "Its time there, as printed; else empty."),
        Column("message", "str", "The line without prefixes, at most 500 characters."),
        Column(
            "cause",
            "category",
            "Of a stall that hvdprof saw: stalled-rank, checkpoint, unequal-batches, "
            "mismatched-collectives or hung-collective; else empty.",
        ),
        Column("until_end", "bool", "The job ended during this stall."),
        Column("hanging_rank", "Int32", "Stalled rank with a stack; missing where none has."),
        Column("hangs_at", "str", "Line of its script, function and phase; empty without."),
        Column("stack", "str", "Innermost line of its stack, and of its script; else empty."),
    ),
)

AUTOTUNE = Table(
    "autotune",
    "One sample of Horovod's autotuning, from the file of HOROVOD_AUTOTUNE_LOG.",
    (
        FILE,
        LINE,
        Column(
            "run",
            "int64",
            "Number of the log in its file, from 0; a sample behind text of a page is one alone.",
        ),
        Column("hierarchical_allreduce", "boolean", "Allreduce in two levels was on."),
        Column("hierarchical_allgather", "boolean", "Allgather in two levels was on."),
        Column(
            "torus_allreduce",
            "boolean",
            "Torus allreduce was on; missing in logs of versions without it.",
        ),
        Column("cache_enabled", "boolean", "The response cache was on."),
        Column("cycle_time_ns", "int64", "Cycle time of the sample.", "ns"),
        Column("fusion_threshold_mb", "float64", "Fusion threshold of the sample.", "MiB"),
        Column(
            "score", "float64", "Reduced bytes per time, median of the sample's trials.", "bytes/us"
        ),
        Column(
            "final",
            "bool",
            "The last row, a repetition of the best one: Horovod writes it when tuning is "
            "finished.",
        ),
    ),
)

PRINTED_RATES = Table(
    "printed_rates",
    "One rate that a training job or a benchmark printed. A line with the rate of a step and a "
    "running mean gives two rows.",
    (
        FILE,
        LINE,
        _RANK,
        Column("job", "int64", "Number of the run of the benchmark in its file, from 0."),
        Column("tool", "category", "What prints such lines: tf_cnn_benchmarks, timm ..."),
        Column(
            "scope",
            "category",
            "step (one or some iterations, or their running mean), rank (the mean of a rank) or "
            "job (what a rank printed in the end for all ranks; never sum these over ranks).",
        ),
        Column("iteration", "Int64", "Number as printed; missing for means and totals."),
        Column("rate", "float64", "The rate in `unit`; from the step time where none stands."),
        Column("unit", "category", "samples/s, tokens/s or steps/s."),
        Column(
            "per",
            "category",
            "rank (or device), or job (all ranks together); empty where the tool states neither.",
        ),
        Column(
            "mean_of",
            "Int64",
            "Iterations in a running mean since the start or the epoch; missing where it is none.",
        ),
        Column("step_ns", "Int64", "Step time in the same line; missing where none stands.", "ns"),
        Column("data_ns", "Int64", "Data wait of such a step; missing where none stands.", "ns"),
        Column(
            "spread",
            "float64",
            "The number behind +/- as printed, in `unit`: standard error in tf_cnn_benchmarks, "
            "1.96 standard deviations in synthetic_benchmark; NaN where none.",
        ),
        _NP,
    ),
)

THROUGHPUT = Table(
    "throughput",
    "Throughput of a whole job at one number of ranks, read from a table or a benchmark's total.",
    (
        FILE,
        LINE,
        Column("series", "category", "Name of the series: heading, or tool and model."),
        Column("np", "int64", "Number of ranks."),
        Column(
            "samples_per_s",
            "float64",
            "Samples of all ranks per second; NaN where the table states speed-ups alone.",
            "samples/s",
        ),
        Column(
            "stated_speedup", "float64", "Speed-up as stated in the table; NaN if absent.", "ratio"
        ),
        Column(
            "error",
            "float64",
            "Standard error of `samples_per_s` by the +- behind it, of independent iterations; "
            "their deviation where `num_values` is missing; NaN without.",
            "samples/s",
        ),
        Column("num_values", "Int64", "Iterations in the mean; missing where not in the file."),
    ),
)

THROUGHPUT_SCALING = Table(
    "throughput_scaling",
    "Scaling of one series of `throughput` against its smallest number of ranks. Single numbers "
    "have no interval; the lines on iterations of a training log give one, of that launch. "
    "`hvdprof scaling` treats rows of the same size as repeats.",
    (
        Column("series", "category", "Name of the series: heading, or tool and model."),
        Column("np", "int64", "Number of ranks."),
        Column("samples_per_s", "float64", "Samples of all ranks per second.", "samples/s"),
        Column("samples_per_s_low", "float64", "Lower end of the 95 % interval.", "samples/s"),
        Column("samples_per_s_high", "float64", "Upper end of the 95 % interval.", "samples/s"),
        Column("baseline_np", "Int64", "Ranks of the baseline; missing where there is none."),
        Column(
            "speedup",
            "float64",
            "Throughput divided by that of the baseline; NaN without one.",
            "ratio",
        ),
        Column(
            "stated_speedup",
            "float64",
            "Speed-up as stated in the table; NaN if absent, and of the mean of repeats.",
            "ratio",
        ),
        Column(
            "efficiency",
            "float64",
            "Throughput per rank divided by that of the baseline; NaN without one.",
            "ratio",
        ),
        Column("efficiency_low", "float64", "Lower end of the 95 % interval.", "ratio"),
        Column("efficiency_high", "float64", "Upper end of the 95 % interval.", "ratio"),
        Column("speedup_low", "float64", "Lower end of the 95 % interval.", "ratio"),
        Column("speedup_high", "float64", "Upper end of the 95 % interval.", "ratio"),
        Column(
            "karp_flatt",
            "float64",
            "Serial fraction after Karp and Flatt, against the baseline; NaN at its size.",
            "ratio",
        ),
        Column("karp_flatt_low", "float64", "Lower end of the 95 % interval.", "ratio"),
        Column("karp_flatt_high", "float64", "Upper end of the 95 % interval.", "ratio"),
        Column("num_repeats", "int64", "Rows in the mean."),
        Column("file", "category", "The file of the row."),
    ),
)

LOG_TABLES: tuple[Table, ...] = (
    FILES,
    NOTES,
    HOROVOD_LOG,
    STALLS,
    INCIDENTS,
    AUTOTUNE,
    PRINTED_RATES,
    THROUGHPUT,
    THROUGHPUT_SCALING,
)
