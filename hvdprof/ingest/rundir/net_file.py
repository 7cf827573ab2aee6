"""The network measured before a run: the file of the run directory as a table."""

import dataclasses

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.model.run import Run
from hvdprof.model.tables.log_tables import NOTES
from hvdprof.model.tables.net_tables import NET_TRANSFERS
from hvdprof.rundir.net_recording import NetRecording

ALL_HOSTS = "all"


def with_network(run: Run) -> Run:
    """The run with NET_TRANSFERS, where its network was measured; a damaged file is a note."""
    try:
        recording = NetRecording.read(run.folder)
        if recording is None:
            return run
        frame, notes = net_transfers(recording)
    except UnreadableInputError as error:
        frame, notes = NET_TRANSFERS.empty(), [error.message]
    frames = {**run.frames, NET_TRANSFERS.name: frame}
    if notes:
        notes = [*run.notes, *notes]
        frames[NOTES.name] = NOTES.frame({"note": notes})
    return dataclasses.replace(run, frames=frames, notes=tuple(notes) or run.notes)


def net_transfers(recording: NetRecording) -> tuple[pd.DataFrame, list[str]]:
    """NET_TRANSFERS of a recording, and a sentence for every pair that could not be measured.

    Raises:
        UnreadableInputError: A record lacks a key, or names a host that is not there.
    """
    rows: list[dict[str, object]] = []
    notes: list[str] = []
    names = _distinct(recording.hosts)
    try:
        for record in recording.records:
            is_pair = "from" in record
            ends = [names[record[key]] if is_pair else ALL_HOSTS for key in ("from", "to")]
            if "problem" in record:
                notes.append(
                    f"The network from {ends[0]} to {ends[1]} was not measured "
                    f"({record['what']}): {record['problem']}."
                )
                continue
            rows += [
                {
                    "method": record["what"],
                    "from_host": ends[0],
                    "to_host": ends[1],
                    "np": 2 if is_pair else len(names),
                    "size_bytes": record["size_bytes"],
                    "round": number,
                    "time_ns": time_ns,
                }
                for number, time_ns in enumerate(record["times_ns"])
            ]
        return NET_TRANSFERS.frame(rows), notes
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnreadableInputError(
            f"The measurement of the network cannot be read: {type(error).__name__}: {error}."
        ) from error


def _distinct(hosts: list[str]) -> list[str]:
    """The names of hosts, with the rank after a name that two of them have."""
    return [f"{name}#{rank}" if hosts.count(name) > 1 else name for rank, name in enumerate(hosts)]
