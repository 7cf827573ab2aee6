"""The frames of communicators and of their ranks.

Tested in ``tests/ingest/nccl/test_reader.py``.
"""

from collections.abc import Iterable, Sequence

import pandas as pd

from hvdprof.ingest.nccl.joining import Communicator
from hvdprof.ingest.nccl.logbook import Logbook
from hvdprof.model.tables.nccl_tables import NCCL_COMMUNICATORS, NCCL_RANKS

_OF_PROCESS = ("host", "pid", "tag_rank")
"""Columns of NCCL_RANKS that are fields of the process; the others are those of its member."""


def communicator_frame(log: Logbook, communicators: Sequence[Communicator]) -> pd.DataFrame:
    """One row of ``NCCL_COMMUNICATORS`` for each."""
    rows = []
    for number, communicator in enumerate(communicators):
        members = [log.members[index] for index in communicator.members]
        rows.append(
            {
                "communicator": number,
                "comm_id": members[0].comm_id,
                "num_ranks": _first(member.num_ranks for member in members),
                "num_ranks_seen": len({member.rank for member in members}),
                "num_ranks_started": len({m.rank for m in members if m.started}),
                "num_ranks_complete": len({m.rank for m in members if m.complete}),
                "num_hosts": len({log.processes[member.process].host for member in members}),
                "num_coll_channels": _first(member.num_coll_channels for member in members),
                "num_p2p_channels": _first(member.num_p2p_channels for member in members),
                "join": communicator.join,
                "num_joined": communicator.num_joined,
            }
        )
    return NCCL_COMMUNICATORS.frame(rows)


def rank_frame(log: Logbook, communicators: Sequence[Communicator]) -> pd.DataFrame:
    """One row of ``NCCL_RANKS`` for each rank of each, from the lines of its own process."""
    rows = []
    for number, communicator in enumerate(communicators):
        for index in communicator.members:
            member = log.members[index]
            process = log.processes[member.process]
            row = {
                name: getattr(process if name in _OF_PROCESS else member, name)
                for name in NCCL_RANKS.column_names
                if name != "communicator"
            }
            rows.append({"communicator": number} | row)
    return NCCL_RANKS.frame(rows)


def _first(values: Iterable[int | None]) -> int | None:
    return next((value for value in values if value is not None), None)
