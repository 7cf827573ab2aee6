"""The sessions of an elastic job and its resets, as a table and sentences in a terminal."""

import math
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.frame_row import FrameRow, is_missing
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.session_tables import RESETS, SESSIONS
from hvdprof.report.terminal.hanging_text import print_hanging

_ENDED = {
    "finished": "the script ended",
    "hosts-updated": "hosts came or went",
    "worker-lost": "a rank was lost",
    "raised": "the script raised",
    "unknown": "unknown",
}
_PIECES = (
    ("notice_ns", "until noticed"),
    ("shutdown_ns", "to shut Horovod down"),
    ("rendezvous_ns", "to initialise it again"),
    ("sync_ns", "for the state"),
    ("begin_ns", "until the first step"),
)


SESSION_HEADS = ("session", "ranks", "steps", "steady", "step time", "ended")
"""What stands above the columns of a table of sessions."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session as texts."""

    number: str
    ranks: str
    steps: str
    steady: str
    step_time: str
    ended: str


@dataclass(frozen=True, slots=True)
class LaunchSessions:
    """The sessions of one elastic launch, and sentences on each reset and on lost ranks."""

    launch: str
    rows: tuple[SessionRow, ...]
    sentences: tuple[str, ...]


def shape_sessions(analysis: RunAnalysis) -> tuple[LaunchSessions, ...]:
    """The elastic launches of a run in their order; none where it has none."""
    sessions, resets = analysis.table(SESSIONS.name), analysis.table(RESETS.name)
    return tuple(
        LaunchSessions(
            str(launch),
            tuple(_session_row(row) for row in of_launch.to_dict("records")),
            (
                *(_reset(row) for row in _of(resets, launch).to_dict("records")),
                *_lost_at_the_end(of_launch),
            ),
        )
        for launch, of_launch in sessions.groupby("launch", observed=True, sort=False)
    )


def print_sessions(console: Console, launches: tuple[LaunchSessions, ...]) -> None:
    """Print one table a launch with its sentences below; nothing where there are none."""
    for launch in launches:
        console.print(Text("\nSessions", style="bold").append(f"  {launch.launch}", style="dim"))
        frame = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        *numbers, ended = SESSION_HEADS
        for name in numbers:
            frame.add_column(name, justify="right", no_wrap=True)
        frame.add_column(ended, overflow="fold")
        for row in launch.rows:
            frame.add_row(row.number, row.ranks, row.steps, row.steady, row.step_time, row.ended)
        console.print(frame)
        for sentence in launch.sentences:
            print_hanging(console, "  ", sentence)


def _of(table: pd.DataFrame, launch: object) -> pd.DataFrame:
    return table[(table["launch"] == launch).to_numpy()]


def _session_row(row: FrameRow) -> SessionRow:
    return SessionRow(
        number=units.count(row["session"]),
        ranks=units.count(row["np"]),
        steps=units.count(row["num_steps"]),
        steady=units.count(row["num_steady_steps"]),
        step_time=units.milliseconds(row["step_time_ns"]),
        ended=_ENDED[str(row["ended"])],
    )


def _reset(row: FrameRow) -> str:
    ranks = f"{units.count(row['np_before'])} to {units.count(row['np_after'])} ranks"
    parts = [f"Reset {row['session']}, {ranks}: {_stopped(row)}"]
    if not is_missing(row["lost_steps"]) and row["lost_steps"]:
        number = int(row["lost_steps"])
        steps = "1 step" if number == 1 else f"{units.count(number)} steps"
        took = "" if math.isnan(row["lost_ns"]) else f" ({_length(row['lost_ns'])})"
        parts.append(f"{steps} lost since the last commit{took}")
    if row["gone"]:
        parts.append(f"gone: {row['gone']}")
    if row["came"]:
        start = row["worker_start_ns"]
        took = "" if math.isnan(start) else f", {_length(start)} from start to initialised"
        parts.append(f"came: {row['came']}{took}")
    return "; ".join(parts) + "."


def _stopped(row: FrameRow) -> str:
    if math.isnan(row["stopped_ns"]):
        return "time without a step unknown"
    pieces = ", ".join(f"{_length(row[name])} {what}" for name, what in _PIECES)
    until = row["until_steady_ns"]
    steady = "" if math.isnan(until) else f"; first steady step after {_length(until)}"
    return f"{_length(row['stopped_ns'])} without a step ({pieces}){steady}"


def _lost_at_the_end(sessions: pd.DataFrame) -> list[str]:
    last = sessions.iloc[-1]
    return [f"At the end: {last['gone']}."] if last["gone"] else []


def _length(length_ns: float) -> str:
    return units.milliseconds(length_ns) if length_ns < 1e9 else units.seconds(length_ns / 1e9)
