"""A timeline by ``json.loads`` and a naive stack machine: what both paths must give."""

import dataclasses
import json
from typing import Any

import numpy as np

from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline


def rows(raw: RawTimeline) -> list[tuple[Any, ...]]:
    """Slices as (pid, name, start, length, depth, begin, end, args), in their order."""
    table = raw.slices
    return [
        (
            raw.pids[table.pid[i]],
            raw.names[table.name[i]] if table.name[i] >= 0 else None,
            int(table.start_us[i]),
            int(table.dur_us[i]),
            int(table.depth[i]),
            int(table.begin_order[i]),
            int(table.end_order[i]),
            json.loads(raw.args[table.args[i]]) if table.args[i] >= 0 else None,
        )
        for i in range(len(table))
    ]


def ticks(raw: RawTimeline) -> list[tuple[int, int, int, int]]:
    """Ticks as (pid, rank, time, number)."""
    table = raw.ticks
    return [
        (
            raw.pids[table.pid[i]],
            int(table.rank[i]),
            int(table.ts_us[i]),
            int(table.order[i]),
        )
        for i in range(len(table))
    ]


def marks(raw: RawTimeline) -> list[tuple[str, int, int]]:
    """Cycle marks as (name, time, number)."""
    table = raw.marks
    return [
        (raw.names[table.name[i]], int(table.ts_us[i]), int(table.order[i]))
        for i in range(len(table))
    ]


def naive(text: str) -> tuple[list[Any], list[Any], list[Any]]:
    """The same three lists from a file that is strict JSON."""
    slices: list[list[Any]] = []
    seen_ticks, seen_marks = [], []
    stacks: dict[int, list[list[Any]]] = {}
    order = 0
    for event in json.loads(text):
        if event["ph"] == "M":
            continue
        ts = int(event["ts"] // 1)
        stack = stacks.setdefault(event.get("pid", -1), [])
        if event["ph"] == "B":
            if event["name"].startswith("NEGOTIATE_"):
                stack.clear()
            row = [event["pid"], event["name"], ts, -1, len(stack), order, -1, None]
            slices.append(row)
            stack.append(row)
        elif event["ph"] == "E" and stack:
            row = stack.pop()
            row[3], row[6], row[7] = ts - row[2], order, event.get("args")
        elif event["ph"] == "E":
            slices.append([event["pid"], None, ts, 0, 0, -1, order, event.get("args")])
        elif event["ph"] == "X":
            seen_ticks.append((event["pid"], int(event["name"]), ts, order))
        else:
            seen_marks.append((event["name"], ts, order))
        order += 1
    return [tuple(row) for row in slices], seen_ticks, seen_marks


def assert_same(left: RawTimeline, right: RawTimeline) -> None:
    """Every column, string and count of two timelines is the same."""
    for part in dataclasses.fields(RawTimeline):
        ours, theirs = getattr(left, part.name), getattr(right, part.name)
        if part.name not in ("slices", "ticks", "marks"):
            assert ours == theirs, part.name
            continue
        for column in dataclasses.fields(ours):
            one, other = getattr(ours, column.name), getattr(theirs, column.name)
            assert one.dtype == other.dtype, (part.name, column.name)
            assert np.array_equal(one, other), (part.name, column.name)
