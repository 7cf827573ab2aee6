"""Tables of elastic jobs: their sessions between two resets of Horovod, and what resets cost."""

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
        Column("rank", "int32", "", "Rank in this session; it may have another in the next."),
        Column("host", "category", "", "Host as the discovery script names it."),
        Column("slot", "int32", "", "Slot on that host, from 0."),
        Column("hostname", "category", "", "Host as it calls itself."),
        Column("pid", "int64", "", "Process id, which stays the same over resets."),
        Column("launch_rank", "int32", "", "Rank that the process was started with; -1 unknown."),
        Column("started_ns", "int64", "ns", f"Begin of the process, {_OWN_CLOCK}."),
        Column(
            "left_ns",
            "Int64",
            "ns",
            f"When the session before was left, {_OWN_CLOCK}; missing in a new process.",
        ),
        Column(
            "shut_down_ns",
            "Int64",
            "ns",
            f"When Horovod had shut down, {_OWN_CLOCK}; missing in a new process.",
        ),
        Column(
            "initialised_ns", "Int64", "ns", f"When Horovod was initialised again, {_OWN_CLOCK}."
        ),
        Column(
            "entered_ns",
            "int64",
            "ns",
            f"When the state was there and the script's function was called, {_OWN_CLOCK}.",
        ),
        Column("first_step_ns", "Int64", "ns", f"Begin of the first step, {_OWN_CLOCK}."),
        Column("last_step_end_ns", "Int64", "ns", f"End of the last step, {_OWN_CLOCK}."),
        Column("num_steps", "int64", "", "Recorded steps, warm-up included."),
        Column(
            "num_updates",
            "Int64",
            "",
            "Updates as the rank counted them when it left the session; missing where it was "
            "killed.",
        ),
        Column(
            "num_committed", "Int64", "", "Updates behind which the last commit of the session lay."
        ),
        Column(
            "why",
            "category",
            "",
            "How the session ended for this rank: finished, hosts-updated, lost-peer, raised; "
            "empty where the rank did not say, because it was killed.",
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
        Column("num_steps", "int64", "", "Steps that the rank with most has recorded."),
        Column("num_steady_steps", "int64", "", "Steps of the job that count for its step time."),
        Column(
            "step_time_ns",
            "float64",
            "ns",
            "Median time of these steps; NaN where there are none.",
        ),
        Column("came", "str", "", "Workers that are new in this session: rank, host and process."),
        Column("gone", "str", "", "Workers that are in it for the last time, and how they ended."),
        Column(
            "ended",
            "category",
            "",
            "finished (the script came to its end), hosts-updated (hosts came or went), "
            "worker-lost (a rank died), raised (by all that told), or unknown.",
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
            "From the end of the last step to the begin of the first: nobody trained.",
        ),
        Column(
            "until_steady_ns",
            "float64",
            "ns",
            "From the end of the last step to the begin of the first steady one; NaN where the "
            "next session has none.",
        ),
        Column(
            "notice_ns",
            "float64",
            "ns",
            "Of `stopped_ns`: until the script's function was left, by an exception of Horovod.",
        ),
        Column("shutdown_ns", "float64", "ns", "Of `stopped_ns`: shutting Horovod down."),
        Column(
            "rendezvous_ns",
            "float64",
            "ns",
            "Of `stopped_ns`: until Horovod was initialised again; new workers start in it.",
        ),
        Column("sync_ns", "float64", "ns", "Of `stopped_ns`: until the state was on all ranks."),
        Column(
            "begin_ns", "float64", "ns", "Of `stopped_ns`: until the first step began after that."
        ),
        Column(
            "worker_start_ns",
            "float64",
            "ns",
            "How long the slowest new worker took from the begin of its process until Horovod was "
            "initialised in it; NaN where none came.",
        ),
        Column(
            "lost_steps",
            "Int64",
            "",
            "Steps since the last commit, which are to be done again; 0 where hosts were updated, "
            "missing where no rank that went on could tell.",
        ),
        Column("lost_ns", "float64", "ns", "These steps by the median step time of their session."),
    ),
)

SESSION_TABLES: tuple[Table, ...] = (SESSION_RANKS, SESSIONS, RESETS)
