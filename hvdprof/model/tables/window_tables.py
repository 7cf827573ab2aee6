"""Tables of what are no single steps: windows, evaluations, elastic sessions and resets."""

from collections.abc import Iterator

from hvdprof.model.schema import Column, Table

_PARTS = {
    "step": "Length of a step",
    "data": "Time in the data phase",
    "forward": "Time in the forward phase",
    "backward": "Time in the backward phase",
    "before_update": "Time from the end of backward to the update, outside other phases",
    "optimizer": "Local parameter update",
    "blocked": "Blocked time; missing where the recorder cannot measure it",
}
_SPREAD = {
    "sum": "sum over the steps of the window.",
    "median": "median of the steps.",
    "p95": "95th percentile of the steps.",
    "max": "largest of a step.",
}
EVALUATIONS = Table(
    "evaluations",
    "One evaluation of one rank: its forward passes without training between two updates, or "
    "after the last. In a light recording those that have a window of their own, and the last.",
    (
        Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        Column("rank", "int32", "Rank as `hvd.rank()` returns it."),
        Column(
            "step",
            "int64",
            "Number of the step that it lies in; after the last step, that number plus 1.",
        ),
        Column(
            "start_ns", "int64", "Where the step before ended, on rank 0's monotonic clock.", "ns"
        ),
        Column("dur_ns", "int64", "Time from there to the end of its last forward pass.", "ns"),
        Column(
            "blocked_ns",
            "Int64",
            "Blocked in this time, such as in metrics that are reduced per batch. Missing where "
            "the recorder cannot measure it, and in recordings of earlier versions.",
            "ns",
        ),
        Column(
            "rest_ns",
            "int64",
            "After the last step: time from the last forward pass to the end of the last wait, "
            "such as in a metric that is reduced. 0 for others: it is in their step.",
            "ns",
        ),
        Column("rest_blocked_ns", "Int64", "Blocked in that time, likewise.", "ns"),
        Column(
            "after_last",
            "bool",
            "After the last step of the training, so that no row of `steps` holds it.",
        ),
        Column(
            "clock_error_ns",
            "int64",
            "Largest error of the alignment of this rank's clock to rank 0's.",
            "ns",
        ),
    ),
)

_LAUNCH = Column("launch", "category", "Id of the elastic launch, as in the manifest.")
_SESSION = Column("session", "int64", "Number of the session within its launch, from 1.")
_PASS = Column(
    "pass_id", "category", "Id of the session, which is a pass of its own in all other tables."
)
_OWN_CLOCK = "on the rank's own monotonic clock"

SESSION_RANKS = Table(
    "session_ranks",
    "One rank of one session of an elastic job, from its recorder file.",
    (
        _LAUNCH,
        _SESSION,
        _PASS,
        Column("rank", "int32", "Rank in this session; it can change in the next."),
        Column("host", "category", "Host as the discovery script names it."),
        Column("slot", "int32", "Slot on that host, from 0."),
        Column("hostname", "category", "Host name that the host itself reports."),
        Column("pid", "int64", "Process id, which stays the same over resets."),
        Column("launch_rank", "int32", "Rank at the start of the process; -1 unknown."),
        Column("started_ns", "int64", f"Start of the process, {_OWN_CLOCK}.", "ns"),
        Column(
            "left_ns",
            "Int64",
            f"End of the previous session, {_OWN_CLOCK}; missing in a new process.",
            "ns",
        ),
        Column(
            "shut_down_ns",
            "Int64",
            f"End of Horovod's shutdown, {_OWN_CLOCK}; missing in a new process.",
            "ns",
        ),
        Column("initialised_ns", "Int64", f"End of Horovod's initialisation, {_OWN_CLOCK}.", "ns"),
        Column(
            "entered_ns",
            "int64",
            f"Call of the script's function, with synchronised state, {_OWN_CLOCK}.",
            "ns",
        ),
        Column("first_step_ns", "Int64", f"Start of the first step, {_OWN_CLOCK}.", "ns"),
        Column("last_step_end_ns", "Int64", f"End of the last step, {_OWN_CLOCK}.", "ns"),
        Column("num_steps", "int64", "Recorded steps, warm-up included."),
        Column(
            "num_updates",
            "Int64",
            "Updates counted by the rank at the end of the session; missing where it was killed.",
        ),
        Column("num_committed", "Int64", "Updates covered by the last commit of the session."),
        Column(
            "why",
            "category",
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
        Column("mode", "category", "Way of measuring: throughput or trace."),
        Column("np", "int64", "Number of ranks."),
        Column("num_steps", "int64", "Recorded steps, of the rank with most."),
        Column("num_steady_steps", "int64", "Steady steps of the job."),
        Column(
            "step_time_ns", "float64", "Median time of these steps; NaN where there are none.", "ns"
        ),
        Column("came", "str", "New workers in this session: rank, host and process."),
        Column("gone", "str", "Workers in it for the last time, and how they ended."),
        Column(
            "ended",
            "category",
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
        Column("session", "int64", "Number of the session that the reset ended."),
        Column("mode", "category", "Way of measuring: throughput or trace."),
        Column("np_before", "int64", "Number of ranks of that session."),
        Column("np_after", "int64", "Number of ranks of the next."),
        Column("cause", "category", "hosts-updated, worker-lost, raised or unknown."),
        Column("gone", "str", "Workers that are not in the next session."),
        Column("came", "str", "Workers that are new in the next session."),
        Column(
            "stopped_ns",
            "float64",
            "Time without training: from the end of the last step to the start of the first.",
            "ns",
        ),
        Column(
            "until_steady_ns",
            "float64",
            "From the end of the last step to the start of the first steady step; NaN where the "
            "next session has none.",
            "ns",
        ),
        Column(
            "notice_ns",
            "float64",
            "Part of `stopped_ns`: until Horovod's exception left the script's function.",
            "ns",
        ),
        Column("shutdown_ns", "float64", "Part of `stopped_ns`: shutdown of Horovod.", "ns"),
        Column(
            "rendezvous_ns",
            "float64",
            "Part of `stopped_ns`: until Horovod was initialised again; new workers start in it.",
            "ns",
        ),
        Column(
            "sync_ns", "float64", "Part of `stopped_ns`: until the state was on all ranks.", "ns"
        ),
        Column(
            "begin_ns",
            "float64",
            "Part of `stopped_ns`: from there to the start of the first step.",
            "ns",
        ),
        Column(
            "worker_start_ns",
            "float64",
            "Time of the slowest new worker from the start of its process to the initialisation of "
            "Horovod; NaN without new workers.",
            "ns",
        ),
        Column(
            "lost_steps",
            "Int64",
            "Steps since the last commit, which are repeated; 0 where hosts were updated, missing "
            "where no surviving rank recorded it.",
        ),
        Column(
            "lost_ns", "float64", "`lost_steps` times the median step time of their session.", "ns"
        ),
    ),
)

SESSION_TABLES: tuple[Table, ...] = (SESSION_RANKS, SESSIONS, RESETS)


def _spreads() -> Iterator[Column]:
    for part, doc in _PARTS.items():
        dtype = "Int64" if part == "blocked" else "int64"
        for name, of_steps in _SPREAD.items():
            yield Column(f"{part}_{name}_ns", dtype, f"{doc}: {of_steps}", "ns")


WINDOWS = Table(
    "windows",
    "One window of consecutive steps on one rank, in a light recording (`--light`). `steps` holds "
    "the mean steps of the windows that all ranks share.",
    (
        Column("pass_id", "category", "Folder name of the pass, as in the manifest."),
        Column("segment", "category", "Id of the segment within the pass, as in the plan."),
        Column("rank", "int32", "Rank as `hvd.rank()` returns it."),
        Column("step", "int64", "Number of its first step within the segment, from 0."),
        Column("last_step", "int64", "Number of its last step."),
        Column("num_steps", "int64", "Recorded steps; fewer where some were skipped."),
        Column("warmup", "bool", "Warm-up steps, excluded from results."),
        Column("start_ns", "int64", "Start of the first step on rank 0's monotonic clock.", "ns"),
        Column("dur_ns", "int64", "Time from there to the end of the last step.", "ns"),
        Column("wall_ns", "int64", "Wall clock of the host after the last step, Unix time.", "ns"),
        Column("samples", "int64", "Samples this rank trained on in all its steps.", "samples"),
        *_spreads(),
        Column("longest_step", "int64", "Number of the longest step."),
        Column(
            "longest_phase",
            "category",
            "Phase of that step that took longer than usual by most; empty without phases.",
        ),
        Column("longest_phase_ns", "int64", "Time of that step in this phase.", "ns"),
        Column(
            "longest_blocked_ns",
            "Int64",
            "Blocked time of that step; missing where unknown. The rank with the least of it "
            "delays the others.",
            "ns",
        ),
        Column("loss", "float64", "Mean training loss of this rank; NaN where not recorded."),
        Column(
            "clock_error_ns",
            "int64",
            "Largest error of the alignment of this rank's clock to rank 0's.",
            "ns",
        ),
    ),
)
