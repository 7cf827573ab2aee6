"""The collectives of every rank, as other recorders than Horovod's timeline write them.

Profiler traces, flight recorder dumps, verbose logs of NCCL's Inspector and exports of Nsight
Systems with payloads fill ``RANK_COLLECTIVES``: each row is one call on one rank, and ``match_id``
joins the rows of one collective. ``MATCHED_COLLECTIVES`` is computed of it on corrected clocks.
"""

from hvdprof.model.schema import Column, Table

NO_MATCH = -1
"""``match_id`` of a call without a partner on the other ranks of its group."""

UNBOUNDED_CLOCK_NS = 2**61
"""``clock_error_ns`` where nothing in a file bounds the clock of its host; two of them add up."""

INSPECTOR, NSYS = "nccl-inspector", "nsys"
"""``source`` of the calls of NCCL's Inspector and of Nsight Systems."""


def inspector_job(folder: str, communicator: str = "") -> str:
    """``pass_id`` of Inspector logs; with the largest communicator where a folder has several."""
    return f"{folder}, communicator {communicator}" if communicator else folder


RANK_COLLECTIVES = Table(
    "rank_collectives",
    "One collective on one rank, as a profiler trace, a flight recorder dump, a verbose log of "
    "NCCL's Inspector or an export of Nsight Systems with payloads records it. Trace launches of "
    "DDP and FSDP2 scripts leave flight recorder files in the run, which are read at the first use "
    "of this table.",
    (
        Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        Column("source", "category", "kineto, flight-recorder, nccl-inspector or nsys."),
        Column("rank", "int32", "Rank in the job, not in the process group."),
        Column(
            "step",
            "int64",
            "Number of the step within its segment, from 0; -1 outside steps, and where the "
            "source has no steps.",
        ),
        Column("group", "category", "Process group, as the source names it."),
        Column("group_size", "Int64", "Ranks of the group; missing where unknown."),
        Column(
            "seq",
            "Int64",
            "Sequence number within the group, as the source has it; missing where it has none.",
        ),
        Column(
            "match_id",
            "int64",
            "The same number on all ranks for the same collective; -1 where it was matched with no "
            "other rank.",
        ),
        Column("collective", "category", "ALLREDUCE, ALLGATHER, BROADCAST, SEND ..."),
        Column("name", "category", "The producer's own name, verbatim."),
        Column("dtype", "category", "Type of its elements; empty where unknown."),
        Column(
            "size_bytes",
            "Int64",
            "Payload as nccl-tests counts it: of all ranks for ALLGATHER and REDUCESCATTER; "
            "missing where unknown.",
            "bytes",
        ),
        Column(
            "submitted_ns",
            "Int64",
            "Submission by the host, on rank 0's clock; missing where not recorded.",
            "ns",
        ),
        Column(
            "start_ns",
            "Int64",
            "Start on this rank, waiting for others included: of the kernel on GPUs, of the "
            "worker thread's call on CPUs; missing where not recorded.",
            "ns",
        ),
        Column(
            "arrival_ns",
            "int64",
            "Time at which this rank is ready for it: start of the kernel on GPUs, submission on "
            "CPUs; whichever of both is recorded where the other is not.",
            "ns",
        ),
        Column("end_ns", "Int64", "End on this rank; missing where not recorded.", "ns"),
        Column(
            "exposed_ns",
            "Int64",
            "Part of the call not covered by computation of this rank; missing where unknown.",
            "ns",
        ),
        Column(
            "state",
            "category",
            "completed, started or scheduled, as the source has it; empty where it does not say.",
        ),
        Column(
            "clock_error_ns",
            "int64",
            "Largest error of the alignment of this rank's clock to rank 0's; 2^61 where nothing "
            "bounds it.",
            "ns",
        ),
    ),
)
MATCHED_COLLECTIVES = Table(
    "matched_collectives",
    "One collective with its calls on several ranks, from `rank_collectives`. Times are corrected "
    "by `clocks`.",
    (
        Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        Column("match_id", "int64", "Number of the collective, as in `rank_collectives`."),
        Column("step", "int64", "Number of the step within its segment; -1 outside steps."),
        Column("group", "category", "Process group, as the source names it."),
        Column("collective", "category", "ALLREDUCE, ALLGATHER, BROADCAST, SEND ..."),
        Column("name", "category", "The producer's own name, verbatim."),
        Column("size_bytes", "Int64", "Payload, as in `rank_collectives`.", "bytes"),
        Column("num_ranks", "int64", "Ranks whose call is recorded."),
        Column("group_size", "Int64", "Ranks of the group; missing where unknown."),
        Column("first_ns", "int64", "Arrival of the first rank, on rank 0's clock.", "ns"),
        Column("second_last_ns", "int64", "Arrival of the second-last rank.", "ns"),
        Column("last_ns", "int64", "Arrival of the last rank.", "ns"),
        Column("last_rank", "int64", "The rank with the last arrival."),
        Column("wait_sum_ns", "int64", "Sum over ranks of the wait for the last rank.", "ns"),
        Column(
            "transfer_ns",
            "Int64",
            "From the arrival of the last rank to the last end; missing where a rank of the group "
            "or an end is not recorded.",
            "ns",
        ),
        Column(
            "busbw_gb_per_s",
            "float64",
            "Bus bandwidth of nccl-tests from `transfer_ns`; NaN where unknown.",
            "GB/s",
        ),
        Column(
            "decided",
            "bool",
            "The gap between the last two ranks exceeds the sum of their clock errors.",
        ),
    ),
)
COLLECTIVE_BANDWIDTHS = Table(
    "collective_bandwidths",
    "All collectives of one kind, number of ranks and size class (a power of two) in one launch, "
    "from `matched_collectives` whose bus bandwidth is known.",
    (
        Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        Column("collective", "category", "ALLREDUCE, ALLGATHER, BROADCAST, SEND ..."),
        Column("num_ranks", "int64", "Ranks that take part."),
        Column("size_low_bytes", "int64", "Smallest payload of the class.", "bytes"),
        Column("size_high_bytes", "int64", "Largest payload of the class.", "bytes"),
        Column("number", "int64", "How many collectives."),
        Column("wait_mean_ns", "float64", "Mean wait of a rank for the last one.", "ns"),
        Column("transfer_sum_ns", "float64", "Sum of `transfer_ns`.", "ns"),
        Column("transfer_median_ns", "float64", "Median of `transfer_ns`.", "ns"),
        Column(
            "busbw_median_gb_per_s",
            "float64",
            "Median of the bus bandwidths of nccl-tests.",
            "GB/s",
        ),
    ),
)
RANK_COLLECTIVE_TABLES: tuple[Table, ...] = (
    RANK_COLLECTIVES,
    MATCHED_COLLECTIVES,
    COLLECTIVE_BANDWIDTHS,
)
COLLECTIVE_PROGRESS = Table(
    "collective_progress",
    "How far one rank came in one process group, as a Flight Recorder dump, `fr_trace` or an NCCL "
    "RAS report states it.",
    (
        Column("job", "category", "The set of dumps of one job, or the file of a report."),
        Column("file", "category", "The file, as it was named to hvdprof."),
        Column("line", "Int64", "Line in a report in text, from 1; missing elsewhere."),
        Column("source", "category", "flight-recorder, ras, or fr-trace (its text)."),
        Column("rank", "int32", "Rank in the job; in a RAS report, within the communicator."),
        Column("group", "category", "Process group or communicator, as the source names it."),
        Column("description", "category", "Description of the group; empty where none."),
        Column("group_ranks", "category", "Its ranks, as in `8, 9, 10`; empty where unknown."),
        Column(
            "point_to_point",
            "bool",
            "The group carries sends and receives, whose counts differ between ranks by design.",
        ),
        Column("status", "category", "missing, dead, unresponsive ... in a RAS report."),
        Column("collective", "category", "What is counted: AllReduce ...; empty for all."),
        Column("host", "category", "Host of the process; empty where not stated."),
        Column("pid", "Int64", "Its process id."),
        Column("gpu", "category", "Its GPU on the host, as printed; empty where not stated."),
        Column("last_enqueued", "Int64", "Number of the last collective submitted."),
        Column("last_completed", "Int64", "Number of the last one completed."),
        Column(
            "pending_name",
            "category",
            "First collective submitted and not completed, as the source names it; empty where "
            "none is recorded.",
        ),
        Column("pending_since_ns", "Int64", "Unix time of its submission, by the host.", "ns"),
        Column("timeout_ns", "Int64", "Its time-out; missing where not recorded.", "ns"),
    ),
)
RAS_STATEMENTS = Table(
    "ras_statements",
    "What an NCCL RAS report says beyond single ranks: a row of its table of communicators, ranks "
    "that it counts, or a process.",
    (
        Column("file", "category", "The file, as it was named to hvdprof."),
        Column("line", "int64", "Number of the line in the file, from 1."),
        Column("problem", "category", "OK, MISMATCH, INCOMPLETE, ERROR, DEAD, as printed."),
        Column("communicator", "category", "Its hash; empty in the table, and for processes."),
        Column("num_communicators", "Int64", "Communicators of a row of the table."),
        Column("num_ranks", "Int64", "Ranks of each of them, or ranks that are counted."),
        Column("collective", "category", "What is counted: AllReduce ...; empty for all."),
        Column("last_enqueued", "Int64", "Up to which operation they launched; 0 for none."),
        Column("host", "category", "Host of a process; empty elsewhere."),
        Column("pid", "Int64", "Its process id."),
        Column("gpu", "category", "Its GPUs, as printed."),
    ),
)
COLLECTIVE_TIMEOUTS = Table(
    "collective_timeouts",
    "One collective of one rank at which PyTorch's watchdog gave up, or where the rank stood then.",
    (
        Column("file", "category", "The file, as it was named to hvdprof."),
        Column("line", "int64", "Number of the line in the file, from 1."),
        Column(
            "rank",
            "Int32",
            "Rank in the tag `[rank3]:`, else within its process group; missing where cut off.",
        ),
        Column("group", "category", "Process group as printed; empty where not printed."),
        Column("timed_out", "bool", "The rank timed out; else it printed its state alone."),
        Column(
            "reported_by", "Int32", "Rank that reports its time-out; missing where it does itself."
        ),
        Column("world_size", "Int64", "Ranks of the job by other lines; missing if unknown."),
        Column("sequence", "Int64", "SeqNum of the collective within its process group."),
        Column("operation", "category", "OpType as printed; empty where it is cut off."),
        Column("num_elements_in", "Int64", "NumelIn; missing before PyTorch 2.2.", "elements"),
        Column("num_elements_out", "Int64", "NumelOut; missing before PyTorch 2.2.", "elements"),
        Column(
            "num_group_ranks",
            "Int64",
            "Ranks of the group: elements out by elements in of an allgather, or the inverse of a "
            "reduce-scatter; missing for other collectives.",
        ),
        Column("timeout_ns", "Int64", "The time-out that was set.", "ns"),
        Column("waited_ns", "Int64", "How long the collective had run.", "ns"),
        Column("last_enqueued", "Int64", "SeqNum of the last collective that was enqueued."),
        Column("last_completed", "Int64", "SeqNum of the last one that was completed."),
        Column("message", "str", "The line without what stands before it."),
    ),
)
INSPECTOR_COLLECTIVES = Table(
    "inspector_collectives",
    "One completed collective, or send or receive, of one rank, as NCCL's Inspector records it.",
    (
        Column("file", "category", "The file, as it was named to hvdprof."),
        Column("line", "int64", "Number of the line in the file, from 1."),
        Column("communicator", "category", "Hash of the communicator."),
        Column("communicator_name", "category", "Its name; empty before NCCL 2.30."),
        Column("rank", "Int32", "Rank in the communicator; missing where no header states it."),
        Column("num_ranks", "Int64", "Ranks of the communicator."),
        Column("num_nodes", "Int64", "Its nodes."),
        Column("host", "category", "Host that wrote it."),
        Column("point_to_point", "bool", "A send or receive."),
        Column("collective", "category", "AllReduce, AllGather, Send ... as printed."),
        Column("seq", "int64", "Number of the collective in its communicator (`coll_sn`)."),
        Column("message_bytes", "int64", "Message size as printed: of one rank.", "bytes"),
        Column(
            "size_bytes",
            "int64",
            "Payload as nccl-tests counts it: of all ranks for AllGather and ReduceScatter.",
            "bytes",
        ),
        Column("exec_ns", "int64", "Time of execution, waiting for other ranks included.", "ns"),
        Column("timing_source", "category", "kernel_gpu, kernel_cpu or collective_cpu."),
        Column("algbw_gb_s", "float64", "Algorithm bandwidth as printed.", "GB/s"),
        Column("busbw_gb_s", "float64", "Bus bandwidth as printed.", "GB/s"),
        Column("algorithm", "category", "RING, TREE ...; empty before format 4.4."),
        Column("protocol", "category", "LL, SIMPLE ...; empty before format 4.4."),
        Column(
            "start_ns",
            "Int64",
            "Unix time of the first kernel start, by the host; missing without verbose output.",
            "ns",
        ),
        Column("end_ns", "Int64", "Unix time of its last kernel stop.", "ns"),
    ),
)
