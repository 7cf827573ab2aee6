"""Tables of what programs print: DeepSpeed, Megatron, NeMo, debuggers, benchmarks of bandwidth."""

from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.log_tables import FILE, LINE

COMMS_LOG = Table(
    "comms_log",
    "One collective, or all of one size in a summary, as DeepSpeed's comms logger prints it.",
    (
        FILE,
        LINE,
        Column("rank", "Int32", "The rank that printed it; missing where not stated."),
        Column("summary", "Int64", "Number of the summary, from 0; missing for single calls."),
        Column("operation", "category", "all_reduce, reduce_scatter_tensor ... as printed."),
        Column("caller", "category", "Calling function; empty without `debug`."),
        Column("size_bytes", "int64", "Message size, rounded as printed.", "bytes"),
        Column("number", "int64", "Calls: 1 for a single call."),
        Column("total_ns", "int64", "Time of all of them, each synchronised.", "ns"),
        Column("mean_ns", "int64", "Time of one; in a summary a mean without the extremes.", "ns"),
        Column(
            "algbw_gb_s",
            "float64",
            "Algorithm bandwidth, from Gbit/s; of all_reduce twice that of nccl-tests.",
            "GB/s",
        ),
        Column("busbw_gb_s", "float64", "Bus bandwidth, from Gbit/s.", "GB/s"),
    ),
)
MEGATRON_SERIES = "Megatron iterations"
NEMO_SERIES = "NeMo iterations"
ITERATION_SERIES = (MEGATRON_SERIES, NEMO_SERIES)
"""Series of `throughput` that lines on iterations form."""

TRAINING_ITERATIONS = Table(
    "training_iterations",
    "One line on iterations that Megatron or NeMo prints.",
    (
        FILE,
        LINE,
        Column(
            "iteration",
            "int64",
            "Number of the last iteration that it is on; NeMo counts within an epoch.",
        ),
        Column(
            "step_ns",
            "int64",
            "Mean length of an iteration since the line before; in NeMo's progress bars that of "
            "the last one.",
            "ns",
        ),
        Column("global_batch_size", "Int64", "Samples of an iteration on all ranks."),
        Column("tflops_per_gpu", "float64", "Throughput per GPU in TFLOP/s; NaN if absent."),
        Column("np", "Int64", "Ranks, from the lines before; missing where not printed."),
    ),
)
DEEPSPEED_TIMERS = ("fwd", "bwd", "bwd_inner", "bwd_allreduce", "step")
"""Timers of RANK_TIMERS that DeepSpeed's ``wall_clock_breakdown`` gives, of one optimizer step."""

RANK_TIMERS = Table(
    "rank_timers",
    "One timer of Megatron over the ranks, as it prints it for some iterations. Several iterations "
    "of one line count as their mean. Or one timer of DeepSpeed on the rank that prints.",
    (
        FILE,
        LINE,
        Column("iteration", "Int64", "Iteration of the line before; missing at startup."),
        Column("timer", "category", "forward-compute, optimizer ... as printed."),
        Column("min_ns", "Int64", "Shortest time of a rank; missing where not printed.", "ns"),
        Column("max_ns", "int64", "Longest time of a rank.", "ns"),
        Column(
            "num_ranks",
            "Int32",
            "Ranks with this timer; 1 where the line is of one rank; missing where not printed.",
        ),
        Column("slowest_rank", "Int32", "The rank of `max_ns`; missing where not printed."),
        Column("fastest_rank", "Int32", "The rank of `min_ns`; missing where not printed."),
        Column(
            "second_max_ns",
            "Int64",
            "Longest time of the other ranks than `slowest_rank`; missing without it.",
            "ns",
        ),
        Column(
            "second_min_ns",
            "Int64",
            "Shortest time of the other ranks than `fastest_rank`; missing without it.",
            "ns",
        ),
        Column(
            "pipeline_stages",
            "Int32",
            "Stages of pipeline parallelism, from the lines before; missing where not printed.",
        ),
    ),
)
STRAGGLER_REPORTS = Table(
    "straggler_reports",
    "One extreme value in a report of Megatron's straggler detector, with its rank.",
    (
        FILE,
        LINE,
        Column("metric", "category", "Rtt, DRtt, Pwr, Tmp, Utl, Clk or Etpt as printed."),
        Column("extreme", "category", "min or max over ranks."),
        Column("value", "float64", "The value in `unit`."),
        Column("unit", "category", "ms, us, W, C, %, MHz or TF as printed."),
        Column("rank", "int32", "The rank."),
    ),
)
FR_TRACE = "fr-trace"
"""The source of rows of COLLECTIVE_PROGRESS that PyTorch's ``fr_trace`` gives as text."""
RANK_STACKS = Table(
    "rank_stacks",
    "Where the main thread of one process was when a debugger, faulthandler or "
    "torch.distributed.debug printed it, in the last dump of the file.",
    (
        FILE,
        LINE,
        Column("tool", "category", "faulthandler, py-spy, gdb or torch.distributed.debug."),
        Column("rank", "Int32", "Its rank, by the file or its name; missing where unknown."),
        Column("host", "category", "Its host; empty where not stated."),
        Column("pid", "Int64", "Its process id; missing where not stated."),
        Column("thread", "str", "Name of the thread; empty where not stated."),
        Column("num_threads", "int64", "Threads of the process in the dump."),
        Column(
            "state",
            "category",
            "collective, backward, synchronize, setup (waits for other ranks), checkpoint, data, "
            "launcher (torchrun, a DataLoader worker), own code, no stack (the debug server got an "
            "error), or wait counters.",
        ),
        Column("operation", "str", "The call it waits in; the wait counters that run; else empty."),
        Column("place", "str", "Innermost line of the script, `train.py:31`; empty without."),
        Column("function", "str", "Function of that line."),
        Column("stack", "str", "At most 8 frames, innermost first, a line for each."),
    ),
)
TRAINING_LOG_TABLES = (COMMS_LOG, TRAINING_ITERATIONS, RANK_TIMERS, STRAGGLER_REPORTS, RANK_STACKS)
NCCL_TEST_RUNS = Table(
    "nccl_test_runs",
    "One run of a program of nccl-tests, from its output.",
    (
        FILE,
        LINE,
        Column("run", "int64", "Number of the run in its file, from 0."),
        Column("operation", "category", "Such as all_reduce; empty where not printed."),
        Column(
            "np",
            "Int64",
            "Highest rank that the output lists, plus 1; missing where none, or the bandwidths say "
            "that more took part.",
        ),
        Column("num_hosts", "Int64", "Hosts of these ranks; missing where none is listed."),
        Column("device", "category", "Name of the GPU of the first rank; empty if unknown."),
        Column("version", "category", "Version of nccl-tests; empty where not printed."),
        Column("num_sizes", "int64", "Message sizes with a result."),
        Column("num_damaged", "int64", "Rows of the table that could not be parsed."),
        Column(
            "num_refused",
            "int64",
            "Rows of numbers that contradict each other (`algbw` is not size divided by time).",
        ),
        Column("peak_busbw_gb_s", "float64", "Highest bus bandwidth; NaN without a row.", "GB/s"),
        Column("peak_size_bytes", "Int64", "Size of the message that reached it.", "bytes"),
        Column("num_wrong", "Int64", "Wrong elements of all rows; missing where not checked."),
        Column(
            "avg_busbw_gb_s",
            "float64",
            "`Avg bus bandwidth` as printed: over all sizes, tiny ones included; NaN if absent.",
            "GB/s",
        ),
        Column("failed", "bool", "The output reports a test failure."),
    ),
)
NCCL_TESTS = Table(
    "nccl_tests",
    "One measurement of nccl-tests: one message size, in place or out of place.",
    (
        FILE,
        LINE,
        Column("run", "int64", "Number of the run in its file, from 0."),
        Column("size_bytes", "int64", "Size of the message.", "bytes"),
        Column("count", "Int64", "Elements; missing where the layout has no column.", "elements"),
        Column("dtype", "category", "Type of the elements; empty where not printed."),
        Column("redop", "category", "Reduction; empty where the operation has none."),
        Column("root", "Int64", "Root rank, -1 for none; missing where not printed."),
        Column("in_place", "boolean", "In place; missing where the layout does not say."),
        Column("time_ns", "int64", "Mean time of one operation.", "ns"),
        Column("algbw_gb_s", "float64", "Size divided by time, as printed (1e9 bytes).", "GB/s"),
        Column("busbw_gb_s", "float64", "Bus bandwidth as printed.", "GB/s"),
        Column("num_wrong", "Int64", "Wrong elements (`#wrong`); missing where not checked."),
        Column("max_error", "float64", "Largest error (`error`); NaN where not checked."),
    ),
)
ALLREDUCE_BENCH = Table(
    "allreduce_bench",
    "One payload of all_reduce_bench.py (stas00/ml-engineering), the mean over its trials; of its "
    "first versions, which print Gbit/s of each, the median over ranks and trials.",
    (
        FILE,
        LINE,
        Column("run", "int64", "Number of its table in the file, from 0."),
        Column("np", "Int64", "Ranks; missing where neither stated nor shown by the ratio."),
        Column("size_bytes", "int64", "Size of the payload; printed in KiB, MiB or GiB.", "bytes"),
        Column("busbw_gb_s", "float64", "Bus bandwidth as printed (1e9 bytes).", "GB/s"),
        Column("algbw_gb_s", "float64", "Size divided by time, as printed.", "GB/s"),
    ),
)
BANDWIDTH_TABLES: tuple[Table, ...] = (NCCL_TEST_RUNS, NCCL_TESTS, ALLREDUCE_BENCH)
