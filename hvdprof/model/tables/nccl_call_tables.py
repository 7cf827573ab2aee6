"""Tables of NCCL calls, NCCL problems, and the kinds of lines in a log."""

from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.nccl_tables import FILE, HOST, LINE, PID

NCCL_CHOICES = Table(
    "nccl_choices",
    "The algorithm and protocol that NCCL chose for one operation (subsystem TUNING).",
    (
        Column("operation", "category", "AllReduce ...; empty before 2.22."),
        Column("size_bytes", "int64", "Size it was chosen for.", "bytes"),
        Column("algorithm", "category", "TREE, RING, NVLS ..."),
        Column("protocol", "category", "LL, LL128 or SIMPLE."),
        Column("first_channel", "Int64", "First channel in use; missing before 2.22."),
        Column("last_channel", "Int64", "Last channel in use; missing before 2.22."),
        Column("time_ns", "float64", "Time that NCCL expects; NaN from 2.22 on.", "ns"),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_CALLS = Table(
    "nccl_calls",
    "One collective call of one rank; the log gives no time, only the order.",
    (
        Column("communicator", "Int64", "Id of the communicator in `nccl_communicators`."),
        Column("rank", "Int64", "Rank within the communicator; missing where not printed."),
        Column("operation", "category", "AllReduce, AllGather, Broadcast, Send ..."),
        Column(
            "op_count",
            "Int64",
            "Counter that NCCL prints; 0 throughout in some versions, missing in CALL lines.",
        ),
        Column("count", "int64", "Elements; per rank for AllGather and ReduceScatter."),
        Column("dtype", "category", "float32, float16 ...; typeN where the number is new."),
        Column("size_bytes", "Int64", "Count times element size; missing for a new type.", "bytes"),
        Column("reduction", "category", "sum, prod, max, min, avg; opN where new."),
        Column("root", "int64", "Root rank as printed; the peer of Send and Recv."),
        Column(
            "subsystem",
            "category",
            "COLL, or CALL where the process prints no COLL lines: both list the same calls.",
        ),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_JOINED_CALLS = Table(
    "nccl_joined_calls",
    "One collective call of rank 0 and the fused execution of Horovod that it provably belongs to.",
    (
        Column("call", "int64", "Number of the row in `nccl_calls`, from 0."),
        Column("pass_id", "category", "Pass or file of the timeline, as in `executions`."),
        Column("fusion_id", "int64", "Id of the execution in that timeline."),
        FILE,
        LINE,
    ),
)

NCCL_TRACES = Table(
    "nccl_traces",
    "One line of level TRACE, which builds with TRACE=1 and network plugins print.",
    (
        Column(
            "time_ns",
            "Int64",
            "Time since the process first printed an NCCL line, on its own clock, not aligned with "
            "other processes. Missing where the line has no time.",
            "ns",
        ),
        Column("function", "category", "Function and source line that printed it."),
        Column("text", "category", "Text of the line, numbers replaced by N, 200 characters."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_PROBLEMS = Table(
    "nccl_problems",
    "One warning or error; the same text of one process is one row.",
    (
        Column(
            "kind",
            "category",
            "warning, retry (a connection that failed and is tried again), trail (a caller that "
            "passed an error on), completion (a failed InfiniBand work request), watchdog "
            "(PyTorch gave up on a collective), failure (an NCCL error as another program reports "
            "it) or died (a launcher).",
        ),
        Column("code", "Int64", "NCCL result code, completion status or signal."),
        Column("where", "category", "Source file and line of NCCL; empty where not printed."),
        Column("text", "category", "Text of the line."),
        Column("tag_rank", "Int64", "Rank by the launcher's or PyTorch's tag."),
        Column("host", "category", "Host; empty where the line has no NCCL prefix."),
        Column("pid", "Int64", "Process; missing where the line has no NCCL prefix."),
        Column("count", "int64", "Number of repetitions."),
        FILE,
        LINE,
        Column("last_line", "int64", "Line of its last repetition."),
        Column(
            "progress_line",
            "Int64",
            "Last line behind it at which the process still made progress: a finished init, a "
            "connection or a collective. Missing where there is none, or without a process.",
        ),
    ),
)

NCCL_QUOTES = Table(
    "nccl_quotes",
    "A line of a log, verbatim: the evidence for the rows that name its number.",
    (FILE, LINE, Column("text", "str", "The line, verbatim, cut after 500 characters.")),
)

NCCL_LINE_KINDS = Table(
    "nccl_line_kinds",
    "One kind of line of one file, by its first word, with a sample.",
    (
        Column("kind", "category", "First word, numbers replaced; the level for TRACE, CALL."),
        Column("understood", "bool", "The line was read in full."),
        Column("count", "int64", "Lines of this kind."),
        Column("sample", "category", "The first such line."),
        FILE,
        LINE,
    ),
)

NCCL_CALL_TABLES: tuple[Table, ...] = (
    NCCL_CHOICES,
    NCCL_CALLS,
    NCCL_JOINED_CALLS,
    NCCL_TRACES,
    NCCL_PROBLEMS,
    NCCL_QUOTES,
    NCCL_LINE_KINDS,
)
