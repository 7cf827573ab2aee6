"""The table of how far each rank came in each process group: who is behind, and who waits.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

COLLECTIVE_PROGRESS = Table(
    "collective_progress",
    "How far one rank came in one process group, as a Flight Recorder dump or an NCCL RAS report "
    "states it.",
    (
        Column("job", "category", "", "The set of dumps of one job, or the file of a report."),
        Column("file", "category", "", "The file, as it was named to hvdprof."),
        Column("line", "Int64", "", "Line in a report in text, from 1; missing elsewhere."),
        Column("source", "category", "", "Recorder: flight-recorder or ras."),
        Column("rank", "int32", "", "Rank in the job; in a RAS report, within the communicator."),
        Column("group", "category", "", "Process group or communicator, as the source names it."),
        Column("description", "category", "", "Description of the group; empty where none."),
        Column("group_ranks", "category", "", "Its ranks, as in `8, 9, 10`; empty where unknown."),
        Column(
            "point_to_point",
            "bool",
            "",
            "The group carries sends and receives, whose counts differ between ranks by design.",
        ),
        Column(
            "status",
            "category",
            "",
            "unresponsive, dead or missing in a RAS report; empty elsewhere.",
        ),
        Column("last_enqueued", "Int64", "", "Number of the last collective submitted."),
        Column("last_completed", "Int64", "", "Number of the last one completed."),
        Column(
            "pending_name",
            "category",
            "",
            "First collective submitted and not completed, as the source names it; empty where "
            "none is recorded.",
        ),
        Column("pending_since_ns", "Int64", "ns", "Unix time of its submission, by the host."),
        Column("timeout_ns", "Int64", "ns", "Its time-out; missing where not recorded."),
    ),
)
