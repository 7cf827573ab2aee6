"""The network measured before a run: the file of the run directory as a table."""

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.text.whole_number import whole
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.model.tables.net_tables import NET_TRANSFERS
from hvdprof.rundir.json_codec import DAMAGE
from hvdprof.rundir.net_recording import NetRecording

ALL_HOSTS = "all"
_WHERE = "The measurement of the network"


def with_network(run: Run) -> Run:
    """The run with NET_TRANSFERS, where its network was measured; a damaged file is a note."""
    try:
        recording = NetRecording.read(run.folder)
        if recording is None:
            return run
        frame, notes = net_transfers(recording)
    except UnreadableInputError as error:
        frame, notes = NET_TRANSFERS.empty(), [Note(NoteCode.UNREADABLE, error.message)]
    return run.extended({NET_TRANSFERS.name: frame}, notes)


def net_transfers(recording: NetRecording) -> tuple[pd.DataFrame, list[Note]]:
    """NET_TRANSFERS of a recording, and a sentence for what is damaged or was not measured."""
    rows: list[dict[str, object]] = []
    notes = [Note(NoteCode.DAMAGED, clause).at(_WHERE) for clause in recording.problems]
    names = _distinct(recording.hosts)
    for number, record in enumerate(recording.records, start=1):
        try:
            is_pair = "from" in record
            ends = [names[record[key]] if is_pair else ALL_HOSTS for key in ("from", "to")]
            if "problem" in record:
                text = f"The network from {ends[0]} to {ends[1]} was not measured"
                why = f"({record['what']}): {record['problem']}."
                notes.append(Note(NoteCode.NET_UNMEASURED, f"{text} {why}"))
                continue
            same = {
                "method": str(record["what"]),
                "from_host": ends[0],
                "to_host": ends[1],
                "np": 2 if is_pair else len(names),
                "size_bytes": whole(record["size_bytes"]),
            }
            times = enumerate(map(whole, record["times_ns"]))
            rows += [same | {"round": turn, "time_ns": time_ns} for turn, time_ns in times]
        except DAMAGE as error:
            clause = f"record {number} is damaged: {type(error).__name__}"
            notes.append(Note(NoteCode.DAMAGED, clause).at(_WHERE))
    return NET_TRANSFERS.frame(rows), notes


def _distinct(hosts: list[str]) -> list[str]:
    """The names of hosts, with the rank after a name that two of them have."""
    return [f"{name}#{rank}" if hosts.count(name) > 1 else name for rank, name in enumerate(hosts)]
