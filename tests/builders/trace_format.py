"""Checks a Chrome trace against the Trace Event Format (JSON object format).

The rules are those of the public document "Trace Event Format" of the Catapult project, and the
ones without which chrome://tracing or Perfetto draw something else than was meant: events ordered
by time, intervals of one thread nested or apart, every thread and process named.
"""

import itertools
import json
from decimal import Decimal
from typing import Any

_REQUIRED = {
    "X": {"name", "ph", "ts", "dur", "pid", "tid"},
    "i": {"name", "ph", "ts", "s", "pid", "tid"},
    "M": {"name", "ph", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "tid", "args"},
    "s": {"name", "ph", "ts", "pid", "tid", "id"},
    "f": {"name", "ph", "ts", "pid", "tid", "id", "bp"},
}
_PALETTE = {
    *("thread_state_uninterruptible", "thread_state_iowait", "thread_state_running"),
    *("thread_state_runnable", "thread_state_sleeping", "thread_state_unknown"),
    *("background_memory_dump", "light_memory_dump", "detailed_memory_dump"),
    *("vsync_highlight_color", "generic_work", "good", "bad", "terrible", "black", "grey"),
    *("white", "yellow", "olive", "rail_response", "rail_animation", "rail_idle", "rail_load"),
    *("startup", "heap_dump_stack_frame", "heap_dump_object_type", "heap_dump_child_node_arrow"),
    *("cq_build_running", "cq_build_passed", "cq_build_failed", "cq_build_abandoned"),
    *("cq_build_attempt_runnig", "cq_build_attempt_passed", "cq_build_attempt_failed"),
}
"""The names of colours that Catapult's ``color_scheme.html`` knows, its misspelt one included."""

_METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def checked_trace(text: str) -> dict[str, Any]:
    """The trace as an object with exact times.

    Raises:
        AssertionError: It breaks the format; the message names the event.
    """
    trace: dict[str, Any] = json.loads(text, parse_float=Decimal)
    assert set(trace) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    assert events, "a trace without events"
    for event in events:
        _check_keys(event)
    timed = [event for event in events if event["ph"] != "M"]
    for before, after in itertools.pairwise(timed):
        assert before["ts"] <= after["ts"], f"not in order of time: {after}"
    _check_names(events)
    _check_nesting(timed)
    _check_arrows(timed)
    return trace


def named_threads(trace: dict[str, Any]) -> dict[tuple[int, int], str]:
    """``process / thread`` by the numbers of both."""
    processes, threads = {}, {}
    for event in trace["traceEvents"]:
        if event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        if event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] = event["args"]["name"]
    return {key: f"{processes[key[0]]} / {name}" for key, name in threads.items()}


def drawing(trace: dict[str, Any]) -> str:
    """The trace as a person sees it: lanes with their events in ms, nested ones deeper."""
    lines = []
    for key, name in sorted(named_threads(trace).items()):
        lines.append(name)
        open_until: list[Decimal] = []
        for event in trace["traceEvents"]:
            if event["ph"] in "MCsf" or (event["pid"], event["tid"]) != key:
                continue
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            start, length = event["ts"] / 1000, event.get("dur", Decimal(0)) / 1000
            span = f"{start:7.3f} {'+' + format(length, '.3f') if 'dur' in event else '|':>8}"
            lines.append(f"  {span}  {'  ' * len(open_until)}{event['name']}")
            if "dur" in event:
                open_until.append(event["ts"] + event["dur"])
    return "\n".join(lines)


def _check_keys(event: dict[str, Any]) -> None:
    kind = event.get("ph")
    assert kind in _REQUIRED, f"unknown kind of event: {event}"
    missing = (_REQUIRED[kind] | {"cat"}) - set(event)
    assert not missing, f"{missing} missing: {event}"
    assert isinstance(event["name"], str), event
    assert isinstance(event["pid"], int), event
    assert isinstance(event["tid"], int), event
    assert isinstance(event.get("args", {}), dict), event
    if kind == "M":
        assert event["name"] in _METADATA, event
    else:
        assert isinstance(event["ts"], (Decimal, int)), event
        assert event["ts"] >= 0, f"before the origin: {event}"
    if kind == "X":
        assert event["dur"] >= 0, f"negative length: {event}"
        assert event.get("cname", "white") in _PALETTE, f"unknown colour: {event}"
    if kind == "C":
        assert event["args"], f"a counter without a value: {event}"
        assert all(isinstance(value, (Decimal, int)) for value in event["args"].values()), event
    if kind == "i":
        assert event["s"] in ("t", "p", "g"), event


def _check_names(events: list[dict[str, Any]]) -> None:
    processes = {event["pid"] for event in events if event["name"] == "process_name"}
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    for event in events:
        assert event["pid"] in processes, f"process without a name: {event}"
        if event["ph"] != "M":
            assert (event["pid"], event["tid"]) in threads, f"thread without a name: {event}"
    names = [event for event in events if event["name"] == "thread_name"]
    assert len(names) == len(threads), "a thread is named twice"


def _check_arrows(timed: list[dict[str, Any]]) -> None:
    """Each arrow has one begin and one end, which is not earlier, and an interval at either."""
    starts, ends = ({e["id"]: e for e in timed if e["ph"] == kind} for kind in "sf")
    assert len(starts) == sum(e["ph"] == "s" for e in timed), "an arrow begins twice"
    assert len(ends) == sum(e["ph"] == "f" for e in timed), "an arrow ends twice"
    assert set(starts) == set(ends), "an arrow without its other end"
    for number, start in starts.items():
        end = ends[number]
        assert (start["name"], start["cat"]) == (end["name"], end["cat"]), (start, end)
        assert start["ts"] <= end["ts"], (start, end)
        for event in (start, end):
            place = (event["pid"], event["tid"])
            around = [e for e in timed if e["ph"] == "X" and (e["pid"], e["tid"]) == place]
            assert any(e["ts"] <= event["ts"] <= e["ts"] + e["dur"] for e in around), event


def _check_nesting(timed: list[dict[str, Any]]) -> None:
    open_ends: dict[tuple[int, int], list[Decimal]] = {}
    for event in timed:
        if event["ph"] != "X":
            continue
        ends = open_ends.setdefault((event["pid"], event["tid"]), [])
        while ends and ends[-1] <= event["ts"]:
            ends.pop()
        end = event["ts"] + event["dur"]
        assert not ends or end <= ends[-1], f"overlaps without being inside: {event}"
        ends.append(end)
