"""What a watcher saw of a pass, to WATCHED_EVENTS: ``events.jsonl`` of the pass."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from hvdprof.ingest.rundir.stall_file import StallKey
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.live_tables import WATCHED_EVENTS
from hvdprof.plain_text import printable
from hvdprof.rundir.json_codec import JsonObject, read_lines
from hvdprof.rundir.recording.event_format import EventKind, EventState


def read_events(
    path: Path, pass_id: str, stalls_over_ns: Mapping[StallKey, int]
) -> tuple[pd.DataFrame, list[Note]]:
    """WATCHED_EVENTS of a pass, and a clause for each line that is damaged.

    Args:
        path: The file.
        pass_id: Of the pass.
        stalls_over_ns: ``StallFile.over_ns``: when a hang was over that no watcher saw end.

    Raises:
        OSError: The file cannot be read.
    """
    begun: dict[int, JsonObject] = {}

    def take(_: int, line: JsonObject) -> None:
        number, state = whole(line["number"]), EventState(line["state"])
        if state == EventState.OVER:
            begun[number] |= {"over_ns": whole(line["since_ns"]), "last_step": whole(line["step"])}
            return
        if state in (EventState.SAMPLED, EventState.PROFILED):
            begun[number] |= _answered(begun[number], line)
            return
        if state == EventState.EXPLAINED:
            begun[number]["text"] += f" {printable(str(line['text']))}"
            return
        ranks = [whole(rank) for rank in line["ranks"]]
        texts = ("segment", "host", "phase", "place", "text")
        begun[number] = {
            "pass_id": pass_id,
            "number": number,
            "event": str(EventKind(line["event"])),
            "rank": ranks[0] if ranks else -1,
            "first_step": whole(line["step"]),
            "last_step": whole(line["step"]) if state == EventState.ONCE else -1,
            "since_ns": whole(line["since_ns"]),
            "seen_ns": whole(line["time_ns"]),
            "over_ns": whole(line["time_ns"]) if state == EventState.ONCE else -1,
            "cost_ns": whole(line["cost_ns"]),
            "step_ns": whole(line["step_ns"]),
            **{name: printable(str(line[name])) for name in texts},
            "share": float("nan"),
            "files": [],
        }

    clauses = read_lines(path, take)
    rows = Rows(WATCHED_EVENTS)
    for number in sorted(begun):
        row = begun[number]
        if row["event"] == EventKind.HANG and row["over_ns"] == -1:
            key = str(row["segment"]), whole(row["first_step"]), whole(row["rank"])
            if key in stalls_over_ns:
                row |= {"over_ns": stalls_over_ns[key], "last_step": row["first_step"]}
        rows.add(**row | {"files": ", ".join(row["files"])})
    return rows.frame(), [Note(NoteCode.DAMAGED, f"{path.name}: {clause}") for clause in clauses]


def _answered(row: JsonObject, line: JsonObject) -> JsonObject:
    """What the ranks of an event have answered, with what they had answered before."""
    new = [printable(str(name)) for name in line["files"]]
    answered: JsonObject = {"files": list(dict.fromkeys([*row["files"], *new]))}
    if share := float(line["share"]):
        answered |= {"share": share, "place": printable(str(line["place"]))}
    return answered
