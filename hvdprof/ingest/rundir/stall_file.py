"""The stalls that hvdprof saw while a pass ran, to tables: ``stalls.jsonl`` of the pass."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pandas as pd

from hvdprof import units
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.text.whole_number import bounded, whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.plain_text import printable
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.failures.launcher_failures import UNEQUAL
from hvdprof.rundir.json_codec import DAMAGE, JsonObject, damaged, read_lines
from hvdprof.rundir.recording.stall_format import (
    MISMATCH,
    UNTIL_END,
    StallCause,
    StallLine,
    frame_parts,
    frames_from_checkpoint,
    script_frame,
    writes_checkpoint,
)

StallKey = tuple[str, int, int]
"""Segment, step, and the first rank that the others wait for; -1 without one."""

KIND = "stall"
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class StallFile:
    """Frames of STALLS and INCIDENTS by name, and a clause for each stall.

    ``over_ns`` is the wall clock at which a stall was over, by ``StallKey``.
    """

    tables: Mapping[str, pd.DataFrame]
    clauses: list[Note] = field(default_factory=list)
    over_ns: Mapping[StallKey, int] = field(default_factory=dict)


def read_stall_file(path: Path, name: str) -> StallFile:
    """The stalls of a pass; damaged lines are named in ``clauses``.

    Raises:
        OSError: It cannot be read.
    """
    stalls, incidents = Rows(STALLS), Rows(INCIDENTS)
    lasted: dict[int, float] = {}
    at_end: set[int] = set()
    over_ns: dict[StallKey, int] = {}
    seen: list[tuple[int, StallLine]] = []

    def take(number: int, record: JsonObject) -> None:
        if record["kind"] == KIND:
            seen.append((number, cast(StallLine, record)))
        elif record["kind"] == "over":
            lasted[whole(record["number"])] = bounded(record["lasted_s"])
            at_end.update({record["number"]} if record.get("at_end") else ())

    clauses = [Note(NoteCode.DAMAGED, read_line) for read_line in read_lines(path, take)]
    for number, stall in seen:
        try:
            clause = _clause(stall, lasted.get(whole(stall["number"])))
            until_end = stall["number"] in at_end
            if until_end:
                clause = f"{clause} {UNTIL_END}"
            incident = _incident(stall, clause) | _place(stall) | {"until_end": until_end}
            for row in list(_tensors(stall)):
                stalls.add(**row, file=name, line=number)
            incidents.add(**incident, file=name, line=number)
            if (lasted_s := lasted.get(whole(stall["number"]))) is not None:
                rank = whole(stall["late"][0]["rank"]) if stall["late"] else -1
                key = printable(str(stall["segment"])), whole(stall["step"]), rank
                more_s = lasted_s - bounded(stall["waited_s"])
                over_ns[key] = whole(stall["time_ns"]) + round(1e9 * more_s)
            clauses.append(Note(NoteCode.STALL, clause))
        except DAMAGE as error:
            clauses.append(Note(NoteCode.DAMAGED, damaged(number, error)))
    tables = {STALLS.name: stalls.frame(), INCIDENTS.name: incidents.frame()}
    return StallFile(tables, clauses, over_ns)


def _incident(record: StallLine, message: str) -> dict[str, object]:
    late = record["late"]
    return {
        "rank": None,
        "time_ns": whole(record["time_ns"]),
        "kind": KIND,
        "failed_rank": whole(late[0]["rank"]) if len(late) == 1 else None,
        "exit_code": None,
        "signal": None,
        "host": "",
        "failed_at": "",
        "message": message,
        "cause": _cause(record),
    }


def _cause(record: StallLine) -> StallCause:
    if record.get("unequal"):
        return StallCause.UNEQUAL
    if record["late"]:
        first = next((rank["stack"] for rank in record["late"] if rank.get("stack")), ())
        return StallCause.CHECKPOINT if writes_checkpoint(first) else StallCause.RANK
    return StallCause.MISMATCH if record.get("waits") else StallCause.COLLECTIVE


def _place(record: StallLine) -> dict[str, object]:
    """Where the first stalled rank that has a stack hangs: its innermost line and the script's."""
    late = next((rank for rank in record["late"] if rank.get("stack")), None)
    if late is None:
        return {"hanging_rank": None, "hangs_at": "", "stack": ""}
    stack = frames_from_checkpoint(late["stack"])
    innermost, of_script = stack[0], script_frame(stack)
    inner_file, _, function = frame_parts(innermost)
    phase, caller = late["phase"], ""
    if of_script not in ("", innermost):
        caller, function = f", called at {of_script}", f"{function or 'import'} of {inner_file}"
    file, line, _ = frame_parts(of_script or innermost)
    more = ", ".join(filter(None, (function, phase and f"{phase} phase")))
    return {
        "hanging_rank": whole(late["rank"]),
        "hangs_at": f"{file}:{line}{more and f' ({more})'}",
        "stack": f"rank {late['rank']}{phase and f' in {phase}'}: {innermost}{caller}",
    }


def _tensors(record: StallLine) -> Iterator[dict[str, object]]:
    """The row of every tensor that a stalled rank has not submitted."""
    for rank in record["late"]:
        for tensor in rank["tensors"]:
            yield {
                "time_ns": whole(record["time_ns"]),
                "warning": whole(record["number"]),
                "waited_s": bounded(record["waited_s"]),
                "state": "missing",
                "stalled_rank": whole(rank["rank"]),
                "tensor": str(tensor),
                "cut": False,
                "shutdown": False,
            }


def _clause(record: StallLine, lasted_s: float | None) -> str:
    stalled = _ranks([rank["rank"] for rank in record["late"]])
    lasted = (
        f"for {units.seconds(lasted_s)}"
        if lasted_s is not None
        else f"for at least {units.seconds(bounded(record['waited_s']))}"
    )
    unequal = record.get("unequal")
    if unequal:
        ended, waiting = _ranks(unequal["ended"]), _ranks(unequal["waiting"])
        return (
            f"{UNEQUAL}: {ended} ended the training loop after {unequal['num_steps']} steps, "
            f"{waiting} blocked {lasted} in step {unequal['step']}"
        )
    # Brings the recorder, which few runs have a use for here.
    from hvdprof.collect.segment_recording import IMPLICIT_SEGMENT

    named = "" if record["segment"] == IMPLICIT_SEGMENT else f" of {record['segment']}"
    where = f"stall at step {record['step']}{named}"
    cause = f"on stalled {stalled}" if stalled else _without_late(record)
    return f"{where}: {_ranks(record['waiting'])} blocked {lasted} {cause}"


def _ranks(numbers: Sequence[object]) -> str:
    return ranks_named([whole(number) for number in numbers])


def _without_late(record: StallLine) -> str:
    waits = record.get("waits", [])
    if not waits:
        return "in a hung collective"
    listed = [
        " ".join(
            [
                f"rank {wait['rank']} in {wait['collective'] or 'a collective'}",
                *([f"at {wait['place']}"] if wait["place"] else []),
            ]
        )
        for wait in waits[:_MOST_NAMED]
    ]
    num_more = len(waits) - len(listed)
    more = [f"{num_more} more ranks"] if num_more else []
    return f"{MISMATCH}: {', '.join([*listed, *more])}"
