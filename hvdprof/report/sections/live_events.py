"""What was reported while the job ran, and what became of it."""

import math

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.live_tables import LIVE_EVENTS
from hvdprof.report.sections.section import Head, Section

MOST_EVENTS = 12
_ONCE = ("evaluation", "checkpoint")
"""Events whose cost is not per step."""

_HEADS = (
    *(Head("seen", is_text=True), Head("event", is_text=True), Head("where", is_text=True)),
    *(Head("lasted"), Head("cost per step,\nreported"), Head("lateness,\nrecorded")),
    Head("outcome", is_text=True),
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
    since, over = (int(str(row[name])) for name in ("since_ns", "over_ns"))
    cost, late = float(str(row["cost_ns"])), float(str(row["late_ns"]))
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
    rank = int(str(row["rank"]))
    host = f" ({row['host']})" if row["host"] else ""
    who = f"rank {rank}{host}" if rank >= 0 else "all ranks"
    phase = f"{row['phase']} phase" if row["phase"] else ""
    share = float(str(row["share"]))
    place = str(row["place"])
    if place and not math.isnan(share):
        place = f"{place}: {units.two_digit_percent(share)} of samples"
    return ", ".join(part for part in (who, phase, place) if part)


def _seen(row: FrameRow) -> str:
    return f"{pd.Timestamp(int(str(row['seen_ns'])), unit='ns'):%H:%M:%S}"


def _answers(row: FrameRow) -> str:
    return f"Files of {_seen(row)} in passes/{row['pass_id']}/recorder: {row['files']}."


def _within(row: FrameRow) -> str:
    late, low, high = (float(str(row[name])) for name in ("late_ns", "late_low_ns", "late_high_ns"))
    return units.milliseconds_within(late, low, high)
