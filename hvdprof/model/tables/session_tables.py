"""Tables of elastic jobs: sessions between two resets of Horovod, and the cost of resets.

Tested in ``tests/model/tables/test_run_tables.py``.
"""

from hvdprof.model.schema import Column, Table

_LAUNCH = Column("launch", "category", "", "Id of the elastic launch, as in the manifest.")
_SESSION = Column("session", "int64", "", "Number of the session within its launch, from 1.")
_PASS = Column(
    "pass_id", "category", "", "Id of the session, which is a pass of its own in all other tables."
)
_OWN_CLOCK = "on the rank's own monotonic clock"

SESSION_RANKS = Table(
    "session_ranks",
    "One rank of one session of an elastic job, from its recorder file.",
    (
        _LAUNCH,
        _SESSION,
        _PASS,
        Column("rank", "int32", "", "Rank in this session; it can change in the next."),
        Column("host", "category", "", "Host as the discovery script names it."),
        Column("slot", "int32", "", "Slot on that host, from 0."),
        Column("hostname", "category", "", "Host name that the host itself reports."),
        Column("pid", "int64", "", "Process id, which stays the same over resets."),
        Column("launch_rank", "int32", "", "Rank at the start of the process; -1 unknown."),
        Column("started_ns", "int64", "ns", f"Start of the process, {_OWN_CLOCK}."),
        Column(
            "left_ns",
            "Int64",
            "ns",
            f"End of the previous session, {_OWN_CLOCK}; missing in a new process.",
        ),
        Column(
            "shut_down_ns",
            "Int64",
            "ns",
            f"End of Horovod's shutdown, {_OWN_CLOCK}; missing in a new process.",
        ),
        Column("initialised_ns", "Int64", "ns", f"End of Horovod's initialisation, {_OWN_CLOCK}."),
        Column(
            "entered_ns",
            "int64",
            "ns",
            f"Call of the script's function, with synchronised state, {_OWN_CLOCK}.",
        ),
        Column("first_step_ns", "Int64", "ns", f"Start of the first step, {_OWN_CLOCK}."),
        Column("last_step_end_ns", "Int64", "ns", f"End of the last step, {_OWN_CLOCK}."),
        Column("num_steps", "int64", "", "Recorded steps, warm-up included."),
        Column(
            "num_updates",
            "Int64",
            "",
            "Updates counted by the rank at the end of the session; missing where it was killed.",
        ),
        Column("num_committed", "Int64", "", "Updates covered by the last commit of the session."),
        Column(
            "why",
            "category",
            "",
            "How the session ended for this rank: finished, hosts-updated, lost-peer, raised; "
            "empty where the rank was killed.",
        ),
    ),
)

SESSIONS = Table(
    "sessions",
    "One session of an elastic job: the time between two resets, at one number of ranks. Its steps "
    "are those of the pass of that id.",
    (
        _LAUNCH,
        _SESSION,
        _PASS,
        Column("mode", "category", "", "Way of measuring: throughput or trace."),
        Column("np", "int64", "", "Number of ranks."),
        Column("num_steps", "int64", "", "Recorded steps, of the rank with most."),
        Column("num_steady_steps", "int64", "", "Steady steps of the job."),
        Column(
            "step_time_ns",
            "float64",
            "ns",
            "Median time of these steps; NaN where there are none.",
        ),
        Column("came", "str", "", "New workers in this session: rank, host and process."),
        Column("gone", "str", "", "Workers in it for the last time, and how they ended."),
        Column(
            "ended",
            "category",
            "",
            "finished (end of the script), hosts-updated (hosts joined or left), "
            "worker-lost (a rank died), raised (on all ranks that reported), or unknown.",
        ),
    ),
)

RESETS = Table(
    "resets",
    "One reset of an elastic job, from the last step of a session to the steps of the next. Times "
    "are those of ranks that are in both; the longest counts.",
    (
        _LAUNCH,
        Column("session", "int64", "", "Number of the session that the reset ended."),
        Column("mode", "category", "", "Way of measuring: throughput or trace."),
        Column("np_before", "int64", "", "Number of ranks of that session."),
        Column("np_after", "int64", "", "Number of ranks of the next."),
        Column("cause", "category", "", "hosts-updated, worker-lost, raised or unknown."),
        Column("gone", "str", "", "Workers that are not in the next session."),
        Column("came", "str", "", "Workers that are new in the next session."),
        Column(
            "stopped_ns",
            "float64",
            "ns",
            "Time without training: from the end of the last step to the start of the first.",
        ),
        Column(
            "until_steady_ns",
            "float64",
            "ns",
            "From the end of the last step to the start of the first steady step; NaN where the "
            "next session has none.",
        ),
        Column(
            "notice_ns",
            "float64",
            "ns",
            "Part of `stopped_ns`: until Horovod's exception left the script's function.",
        ),
        Column("shutdown_ns", "float64", "ns", "Part of `stopped_ns`: shutdown of Horovod."),
        Column(
            "rendezvous_ns",
            "float64",
            "ns",
            "Part of `stopped_ns`: until Horovod was initialised again; new workers start in it.",
        ),
        Column(
            "sync_ns", "float64", "ns", "Part of `stopped_ns`: until the state was on all ranks."
        ),
        Column(
            "begin_ns",
            "float64",
            "ns",
            "Part of `stopped_ns`: from there to the start of the first step.",
        ),
        Column(
            "worker_start_ns",
            "float64",
            "ns",
            "Time of the slowest new worker from the start of its process to the initialisation of "
            "Horovod; NaN without new workers.",
        ),
        Column(
            "lost_steps",
            "Int64",
            "",
            "Steps since the last commit, which are repeated; 0 where hosts were updated, missing "
            "where no surviving rank recorded it.",
        ),
        Column(
            "lost_ns", "float64", "ns", "`lost_steps` times the median step time of their session."
        ),
    ),
)

SESSION_TABLES: tuple[Table, ...] = (SESSION_RANKS, SESSIONS, RESETS)
