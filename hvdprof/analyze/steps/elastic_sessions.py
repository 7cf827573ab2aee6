"""The sessions of an elastic job, its new and lost workers, and the cost of each reset."""

import itertools
import math
import signal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.run import Run
from hvdprof.model.tables.window_tables import RESETS, SESSION_RANKS, SESSIONS
from hvdprof.rundir.manifest import Manifest, WorkerEnd

MOST_NAMED = 8

HOSTS_UPDATED, WORKER_LOST, FINISHED, RAISED, UNKNOWN = (
    "hosts-updated",
    "worker-lost",
    "finished",
    "raised",
    "unknown",
)
_ENDED = {
    "hosts-updated": HOSTS_UPDATED,
    "lost-peer": WORKER_LOST,
    "finished": FINISHED,
    "raised": RAISED,
}

Rank = Mapping[str, Any]
Worker = tuple[str, str, int]
Ends = Mapping[Worker, WorkerEnd]


@dataclass(frozen=True, slots=True)
class _Session:
    """One session: its row of SESSIONS without workers, and its ranks by worker.

    ``warming_ns`` is the time from the first step of each rank to its first steady one.
    """

    row: dict[str, Any]
    ranks: Mapping[Worker, Rank]
    warming_ns: Mapping[int, float]

    def named(self, workers: Iterable[Worker], ends: Ends | None = None) -> str:
        """Names of the workers; with ``ends`` also how they ended."""
        texts = [
            f"rank {self.ranks[worker]['rank']} ({_place(self.ranks[worker])}"
            + ("" if ends is None else _how(self.ranks[worker], ends.get(worker)))
            + ")"
            for worker in sorted(workers, key=lambda worker: int(self.ranks[worker]["rank"]))
        ]
        more = len(texts) - MOST_NAMED
        return ", ".join(texts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def session_tables(run: Run, of_job: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """SESSIONS and RESETS of the elastic launches of a run, without rows where it has none.

    1.  A worker is a process; it is new in its first session, and gone after its last. Its rank
        can change at every reset.
    2.  Sessions on different rank 0s have different clocks, so the times of a reset are differences
        on the own clock of a worker in both sessions. The longest stop counts, and its pieces sum
        to the whole.
    3.  After the loss of a rank, the steps since the last commit are repeated.

    Args:
        run: The run.
        of_job: JOB_STEPS, with ``steady`` as ``mark_steady`` sets it.
    """
    sessions: list[dict[str, object]] = []
    resets: list[dict[str, object]] = []
    table = run.table(SESSION_RANKS.name)
    for launch, of_launch in table.groupby("launch", observed=True, sort=False):
        found = _sessions(run, of_launch, of_job)
        ends = _ends(run.manifest, str(launch), found)
        for before, one, after in zip([None, *found[:-1]], found, [*found[1:], None], strict=True):
            came = one.ranks.keys() - before.ranks.keys() if before else ()
            gone = one.named(_gone(one, after), ends)
            sessions.append(one.row | {"came": one.named(came), "gone": gone})
            if after is not None:
                new = after.ranks.keys() - one.ranks.keys()
                resets.append(_reset(one, after, new) | {"gone": gone, "came": after.named(new)})
    return {SESSIONS.name: SESSIONS.frame(sessions), RESETS.name: RESETS.frame(resets)}


def _sessions(run: Run, ranks: pd.DataFrame, of_job: pd.DataFrame) -> list[_Session]:
    modes = {record.id: record.mode for record in run.manifest.passes}
    found = []
    for number, of_session in ranks.groupby("session", sort=True):
        pass_id = str(of_session["pass_id"].iloc[0])
        counted = of_job[(of_job["pass_id"] == pass_id).to_numpy()]
        steady = counted[counted["steady"].to_numpy()]
        rows = [
            {str(name): value for name, value in row.items()}
            for row in of_session.to_dict("records")
        ]
        row = {
            "launch": str(of_session["launch"].iloc[0]),
            "session": number,
            "pass_id": pass_id,
            "mode": modes.get(pass_id, ""),
            "np": _size(run, pass_id, len(rows)),
            "num_steps": int(of_session["num_steps"].max()),
            "num_steady_steps": len(steady),
            "step_time_ns": float(steady["dur_ns"].median()) if len(steady) else NAN,
            "ended": _ended(of_session["why"].astype(str)),
        }
        first = int(steady["step"].min()) if len(steady) else None
        workers = {(str(row["hostname"]), str(row["host"]), int(row["pid"])): row for row in rows}
        found.append(_Session(row, workers, _warming(run.steps, pass_id, first)))
    return found


def _size(run: Run, pass_id: str, recorded: int) -> int:
    sizes = [record.size for record in run.manifest.passes if record.id == pass_id]
    return sizes[0] if sizes else recorded


def _ended(reasons: Sequence[str] | pd.Series) -> str:
    """End of a session by the reasons of its ranks; killed ranks have none."""
    known = set(reasons)
    return next((name for why, name in _ENDED.items() if why in known), UNKNOWN)


def _warming(steps: pd.DataFrame, pass_id: str, first_steady: int | None) -> dict[int, float]:
    if first_steady is None:
        return {}
    own = steps[(steps["pass_id"] == pass_id).to_numpy()]
    first_ns = own.groupby("rank")["start_ns"].min()
    steady_ns = own[own["step"] == first_steady].groupby("rank")["start_ns"].min()
    return {int(str(rank)): float(value) for rank, value in (steady_ns - first_ns).items()}


def _gone(one: _Session, after: _Session | None) -> Collection[Worker]:
    """Workers missing in the next session; after the last session those without a regular end."""
    if after is not None:
        return one.ranks.keys() - after.ranks.keys()
    return [worker for worker, rank in one.ranks.items() if rank["why"] != "finished"]


def _ends(manifest: Manifest, launch: str, sessions: Sequence[_Session]) -> dict[Worker, WorkerEnd]:
    """Ends of the failed workers.

    The launcher names a process by its rank at the start, which several processes can have in
    succession: they are assigned in the order in which they were lost.
    """
    ends_of_rank: dict[int, list[WorkerEnd]] = {}
    for record in manifest.passes:
        for end in record.worker_ends if record.id == launch else ():
            ends_of_rank.setdefault(end.rank, []).append(end)
    found = {}
    for one, after in zip(sessions, [*sessions[1:], None], strict=True):
        for worker in _gone(one, after):
            rank = one.ranks[worker]
            pending = ends_of_rank.get(int(rank["launch_rank"]))
            if pending:
                found[worker] = pending.pop(0)
    return found


def _place(rank: Rank) -> str:
    name = rank["host"] or rank["hostname"]
    return f"{name} slot {rank['slot']}, process {rank['pid']}"


def _how(rank: Rank, end: WorkerEnd | None) -> str:
    # Horovod ends a worker whose host was removed by SIGABRT, which is no failure.
    if end is None or rank["why"] == "hosts-updated":
        return {
            "": ", ended without a message",
            "raised": ", raised",
            "hosts-updated": ", removed",
            "lost-peer": ", not restarted",
        }.get(rank["why"], "")
    number = end.exit_code - 128
    if number in {int(sign) for sign in signal.Signals}:
        return f", ended by {signal.Signals(number).name}"
    message = f": {end.lines[-1].strip()}" if end.lines else ""
    return f", exit code {end.exit_code}{message}"


def _reset(one: _Session, after: _Session, new: Collection[Worker]) -> dict[str, object]:
    stops = [
        pieces
        for worker in one.ranks.keys() & after.ranks.keys()
        if (pieces := _pieces(one.ranks[worker], after.ranks[worker], after.warming_ns))
    ]
    longest = max(stops, key=lambda pieces: pieces["stopped_ns"], default=None)
    starts = [
        float(rank["initialised_ns"] - rank["started_ns"])
        for rank in (after.ranks[worker] for worker in new)
        if not pd.isna(rank["initialised_ns"])
    ]
    lost = _lost_steps(one)
    return {
        "launch": one.row["launch"],
        "session": one.row["session"],
        "mode": one.row["mode"],
        "np_before": one.row["np"],
        "np_after": after.row["np"],
        "cause": one.row["ended"],
        **(longest or dict.fromkeys(_PIECES, NAN)),
        "worker_start_ns": max(starts, default=NAN),
        "lost_steps": lost,
        "lost_ns": NAN if lost is None else (lost * one.row["step_time_ns"] if lost else 0.0),
    }


_PIECES = (
    "stopped_ns",
    "until_steady_ns",
    "notice_ns",
    "shutdown_ns",
    "rendezvous_ns",
    "sync_ns",
    "begin_ns",
)


def _pieces(before: Rank, after: Rank, warming_ns: Mapping[int, float]) -> dict[str, float] | None:
    """Time of a worker between its last step and its next, piece by piece.

    None where one of the times is missing, as in a session without a finished step.
    """
    moments = [
        before["last_step_end_ns"],
        after["left_ns"],
        after["shut_down_ns"],
        after["initialised_ns"],
        after["entered_ns"],
        after["first_step_ns"],
    ]
    if any(pd.isna(moment) for moment in moments):
        return None
    lengths = [float(end - begin) for begin, end in itertools.pairwise(moments)]
    stopped = math.fsum(lengths)
    warming = warming_ns.get(int(after["rank"]), NAN)
    return dict(zip(_PIECES, [stopped, stopped + warming, *lengths], strict=True))


def _lost_steps(one: _Session) -> int | None:
    """Steps to repeat; None where no surviving rank recorded its commits."""
    if one.row["ended"] in (HOSTS_UPDATED, FINISHED):
        return 0
    uncommitted = [
        int(rank["num_updates"]) - int(rank["num_committed"])
        for rank in one.ranks.values()
        if rank["why"] == "lost-peer"
    ]
    return max(uncommitted, default=None)
