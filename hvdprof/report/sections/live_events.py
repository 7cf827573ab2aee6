"""What happened while the job ran: what was reported, and the sessions of an elastic job."""

import math

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.finding_tables import LIVE_EVENTS
from hvdprof.model.tables.window_tables import RESETS, SESSIONS
from hvdprof.report.sections.section import Head, Section

MOST_EVENTS = 12
_ONCE = ("evaluation", "checkpoint")
"""Events whose cost is not per step."""

_HEADS = (
    *(Head("seen", is_text=True), Head("event", is_text=True), Head("where", is_text=True)),
    *(Head("lasted"), Head("cost per step,\nreported"), Head("lateness,\nrecorded")),
    Head("outcome", is_text=True),
)

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
_SESSION_HEADS = (
    *map(Head, ("session", "ranks", "steps", "steady", "step time")),
    Head("ended", is_text=True),
)


def live_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """The events of all launches; none without a watcher or without events."""
    events = analysis.table(LIVE_EVENTS.name)
    if events.empty:
        return ()
    shown = events.sort_values("seen_ns").head(MOST_EVENTS)
    refuted = int((events["outcome"] == "refuted").sum())
    stragglers = int((events["outcome"] != "").sum())
    sentences = []
    if len(events) > len(shown):
        sentences.append(f"{units.counted(len(events) - len(shown), 'later event')} not shown.")
    if refuted:
        sentences.append(
            f"{refuted} of {units.counted(stragglers, 'named straggler')} refuted: the recorded "
            "steps show less than 5 % of a step of lateness."
        )
    for row in shown.to_dict("records"):
        sentences += [_answers(row)] if row["files"] else []
        # What it costs is memory, and no time.
        sentences += [f"{_seen(row)}: {row['text']}"] if row["event"] == "memory-grows" else []
    return (
        Section(
            "Seen while the job ran",
            caption="by hvdprof watch; times of day in UTC",
            heads=_HEADS,
            rows=tuple(_row(row) for row in shown.to_dict("records")),
            sentences=tuple(sentences),
            note="How it is tested: docs/howto/watch.md.",
        ),
    )


def _row(row: FrameRow) -> tuple[str, ...]:
    since, over = (int(row[name]) for name in ("since_ns", "over_ns"))
    cost, late = float(row["cost_ns"]), float(row["late_ns"])
    return (
        _seen(row),
        str(row["event"]),
        _where(row),
        units.duration((over - since) / 1e9) if over >= 0 else "no end seen",
        f"{units.milliseconds(cost)}{' once' * (str(row['event']) in _ONCE)}" if cost else "",
        "" if math.isnan(late) else _within(row),
        str(row["outcome"]),
    )


def _where(row: FrameRow) -> str:
    rank = int(row["rank"])
    host = f" ({row['host']})" if row["host"] else ""
    who = f"rank {rank}{host}" if rank >= 0 else "all ranks"
    phase = f"{row['phase']} phase" if row["phase"] else ""
    share = float(row["share"])
    place = str(row["place"])
    if place and not math.isnan(share):
        place = f"{place}: {units.two_digit_percent(share)} of samples"
    return ", ".join(part for part in (who, phase, place) if part)


def _seen(row: FrameRow) -> str:
    return f"{pd.Timestamp(int(row['seen_ns']), unit='ns'):%H:%M:%S}"


def _answers(row: FrameRow) -> str:
    return f"Files of {_seen(row)} in passes/{row['pass_id']}/recorder: {row['files']}."


def _within(row: FrameRow) -> str:
    late, low, high = (float(row[name]) for name in ("late_ns", "late_low_ns", "late_high_ns"))
    return units.milliseconds_within(late, low, high)


def session_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """A section for every elastic launch, with sentences on each reset and on lost ranks."""
    sessions, resets = analysis.table(SESSIONS.name), analysis.table(RESETS.name)
    return tuple(
        Section(
            "Sessions",
            str(launch),
            heads=_SESSION_HEADS,
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
