"""The sessions of an elastic job and its resets."""

import math

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.session_tables import RESETS, SESSIONS
from hvdprof.report.sections.section import Head, Section

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
_HEADS = (
    *map(Head, ("session", "ranks", "steps", "steady", "step time")),
    Head("ended", is_text=True),
)


def session_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """A section for every elastic launch, with sentences on each reset and on lost ranks."""
    sessions, resets = analysis.table(SESSIONS.name), analysis.table(RESETS.name)
    return tuple(
        Section(
            "Sessions",
            str(launch),
            heads=_HEADS,
            rows=tuple(_session_row(row) for row in of_launch.to_dict("records")),
            sentences=(
                *(_reset(row) for row in _of(resets, launch).to_dict("records")),
                *_lost_at_the_end(of_launch),
            ),
        )
        for launch, of_launch in sessions.groupby("launch", observed=True, sort=False)
    )


def _of(table: pd.DataFrame, launch: object) -> pd.DataFrame:
    return table[(table["launch"] == launch).to_numpy()]


def _session_row(row: FrameRow) -> tuple[str, ...]:
    return (
        units.count(row["session"]),
        units.count(row["np"]),
        units.count(row["num_steps"]),
        units.count(row["num_steady_steps"]),
        units.milliseconds(row["step_time_ns"]),
        _ENDED[str(row["ended"])],
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
