"""The collectives of every rank, as other recorders than Horovod's timeline write them.

Profiler traces, flight recorder dumps and exports of Nsight Systems fill ``RANK_COLLECTIVES``: each
row is one call on one rank, and ``match_id`` joins the rows of one collective.
``MATCHED_COLLECTIVES`` is computed of it on corrected clocks.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

NO_MATCH = -1
"""``match_id`` of a call without a partner on the other ranks of its group."""

UNBOUNDED_CLOCK_NS = 2**61
"""``clock_error_ns`` where nothing in a file bounds the clock of its host; two of them add up."""

RANK_COLLECTIVES = Table(
    "rank_collectives",
    "One collective on one rank, as a profiler trace, a flight recorder dump or an export of "
    "Nsight Systems records it. Trace launches of DDP and FSDP2 scripts leave flight recorder "
    "files in the run, which are read at the first use of this table.",
    (
        Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        Column("source", "category", "", "Recorder: kineto, flight-recorder or nsys."),
        Column("rank", "int32", "", "Rank in the job, not in the process group."),
        Column(
            "step",
            "int64",
            "",
            "Number of the step within its segment, from 0; -1 outside steps, and where the "
            "source has no steps.",
        ),
        Column("group", "category", "", "Process group, as the source names it."),
        Column("group_size", "Int64", "", "Ranks of the group; missing where unknown."),
        Column(
            "seq",
            "Int64",
            "",
            "Sequence number within the group, as the source has it; missing where it has none.",
        ),
        Column(
            "match_id",
            "int64",
            "",
            "The same number on all ranks for the same collective; -1 where it was matched with no "
            "other rank.",
        ),
        Column("collective", "category", "", "ALLREDUCE, ALLGATHER, BROADCAST, SEND ..."),
        Column("name", "category", "", "The producer's own name, verbatim."),
        Column("dtype", "category", "", "Type of its elements; empty where unknown."),
        Column(
            "size_bytes",
            "Int64",
            "bytes",
            "Payload as nccl-tests counts it: of all ranks for ALLGATHER and REDUCESCATTER; "
            "missing where unknown.",
        ),
        Column(
            "submitted_ns",
            "Int64",
            "ns",
            "Submission by the host, on rank 0's clock; missing where not recorded.",
        ),
        Column(
            "start_ns",
            "Int64",
            "ns",
            "Start on this rank, waiting for others included: of the kernel on GPUs, of the "
            "worker thread's call on CPUs; missing where not recorded.",
        ),
        Column(
            "arrival_ns",
            "int64",
            "ns",
            "Time at which this rank is ready for it: start of the kernel on GPUs, submission on "
            "CPUs; whichever of both is recorded where the other is not.",
        ),
        Column("end_ns", "Int64", "ns", "End on this rank; missing where not recorded."),
        Column(
            "exposed_ns",
            "Int64",
            "ns",
            "Part of the call not covered by computation of this rank; missing where unknown.",
        ),
        Column(
            "state",
            "category",
            "",
            "completed, started or scheduled, as the source has it; empty where it does not say.",
        ),
        Column(
            "clock_error_ns",
            "int64",
            "ns",
            "Largest error of the alignment of this rank's clock to rank 0's; 2^61 where nothing "
            "bounds it.",
        ),
    ),
)

MATCHED_COLLECTIVES = Table(
    "matched_collectives",
    "One collective with its calls on several ranks, from `rank_collectives`. Times are corrected "
    "by `clocks`.",
    (
        Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        Column("match_id", "int64", "", "Number of the collective, as in `rank_collectives`."),
        Column("step", "int64", "", "Number of the step within its segment; -1 outside steps."),
        Column("group", "category", "", "Process group, as the source names it."),
        Column("collective", "category", "", "ALLREDUCE, ALLGATHER, BROADCAST, SEND ..."),
        Column("name", "category", "", "The producer's own name, verbatim."),
        Column("size_bytes", "Int64", "bytes", "Payload, as in `rank_collectives`."),
        Column("num_ranks", "int64", "", "Ranks whose call is recorded."),
        Column("group_size", "Int64", "", "Ranks of the group; missing where unknown."),
        Column("first_ns", "int64", "ns", "Arrival of the first rank, on rank 0's clock."),
        Column("second_last_ns", "int64", "ns", "Arrival of the second-last rank."),
        Column("last_ns", "int64", "ns", "Arrival of the last rank."),
        Column("last_rank", "int64", "", "The rank with the last arrival."),
        Column("wait_sum_ns", "int64", "ns", "Sum over ranks of the wait for the last rank."),
        Column(
            "transfer_ns",
            "Int64",
            "ns",
            "From the arrival of the last rank to the last end; missing where a rank of the group "
            "or an end is not recorded.",
        ),
        Column(
            "busbw_gb_per_s",
            "float64",
            "GB/s",
            "Bus bandwidth of nccl-tests from `transfer_ns`; NaN where unknown.",
        ),
        Column(
            "decided",
            "bool",
            "",
            "The gap between the last two ranks exceeds the sum of their clock errors.",
        ),
    ),
)

COLLECTIVE_BANDWIDTHS = Table(
    "collective_bandwidths",
    "All collectives of one kind, number of ranks and size class (a power of two) in one launch, "
    "from `matched_collectives` whose bus bandwidth is known.",
    (
        Column("pass_id", "category", "", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "", "Id of the segment within the pass, as in the plan."),
        Column("collective", "category", "", "ALLREDUCE, ALLGATHER, BROADCAST, SEND ..."),
        Column("num_ranks", "int64", "", "Ranks that take part."),
        Column("size_low_bytes", "int64", "bytes", "Smallest payload of the class."),
        Column("size_high_bytes", "int64", "bytes", "Largest payload of the class."),
        Column("number", "int64", "", "How many collectives."),
        Column("wait_mean_ns", "float64", "ns", "Mean wait of a rank for the last one."),
        Column("transfer_sum_ns", "float64", "ns", "Sum of `transfer_ns`."),
        Column("transfer_median_ns", "float64", "ns", "Median of `transfer_ns`."),
        Column(
            "busbw_median_gb_per_s",
            "float64",
            "GB/s",
            "Median of the bus bandwidths of nccl-tests.",
        ),
    ),
)

RANK_COLLECTIVE_TABLES: tuple[Table, ...] = (
    RANK_COLLECTIVES,
    MATCHED_COLLECTIVES,
    COLLECTIVE_BANDWIDTHS,
)
