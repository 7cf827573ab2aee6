"""A status of NCCL's RAS subsystem in JSON (``ncclras -f json``, NCCL 2.28.7 and later), or events.

Of the events (``ncclras -m -f json``, NCCL 2.29 and later) those of processes that die are read.

Tested in ``tests/ingest/logs/test_ras_text.py``.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.foreign_files import is_ras_events
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.text.small_json import mapping_of, read_json_mapping, read_small
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_PROGRESS, RAS_STATEMENTS
from hvdprof.rundir.json_codec import parse_json
from hvdprof.rundir.regular_file import shown_name
from hvdprof.units import counted

SOURCE = "ras"
_END_OF_EVENT = re.compile(rb"^\}[ \t\r]*$", re.MULTILINE)


def read_ras_json(path: Path) -> list[tuple[str, pd.DataFrame]]:
    """How far each rank of each communicator came, as COLLECTIVE_PROGRESS by its name.

    A rank's last collective is the sum of its counts over all kinds. Ranks of a communicator that
    the report does not list are counted in a row of RAS_STATEMENTS.

    Raises:
        UnreadableInputError: It is torn, too large, or no report.
        OSError: It cannot be read.
    """
    name = shown_name(path)
    try:
        data = read_small(path)
        if is_ras_events(data):
            return _of_events(data, name)
        # The server says OK before a report that was asked for by hand.
        report = read_json_mapping(path, after_head=True)
        communicators = [mapping_of(one) for one in _items(report.get("communicators"))]
        ranks = [
            (str(communicator.get("hash", "")), mapping_of(rank), default)
            for communicator in communicators
            for key, default in (("ranks", ""), ("missing_ranks", "missing"))
            for rank in _items(communicator.get(key))
        ]
    except ValueError as error:
        raise UnreadableInputError(
            f"{name} is a damaged RAS report; it is not read.",
            hint="Query again: ncclras -v -f json.",
        ) from error
    rows = Rows(COLLECTIVE_PROGRESS)
    for group, rank, default in ranks:
        number = rank.get("rank")
        if isinstance(number, int) and 0 <= number < 2**31:
            rows.add(
                job=name,
                file=name,
                line=None,
                source=SOURCE,
                rank=number,
                status=_status(rank, default),
                collective="",
                host=_text(rank.get("host")),
                pid=_number(rank.get("pid")),
                gpu=_text(rank.get("cuda_dev")),
                group=group,
                description="",
                group_ranks="",
                point_to_point=False,
                last_enqueued=_launched(rank),
                last_completed=None,
                pending_name="",
                pending_since_ns=None,
                timeout_ns=None,
            )
    return [
        (COLLECTIVE_PROGRESS.name, rows.frame()),
        (RAS_STATEMENTS.name, _unlisted(communicators, name)),
    ]


def _of_events(data: bytes, name: str) -> list[tuple[str, pd.DataFrame]]:
    """A row of RAS_STATEMENTS for each process that died; an event that is cut is left out.

    Raises:
        ValueError: An event cannot be read.
        UnreadableInputError: No process died.
    """
    begin = data.index(b"{")
    rows, line = Rows(RAS_STATEMENTS), 1 + data.count(b"\n", 0, begin)
    *events, _ = _END_OF_EVENT.split(data[begin:])
    for text in events:
        event = mapping_of(parse_json(text + b"}"))
        peer = mapping_of(event.get("peer", {}))
        if event.get("event") == "PEER_DEAD":
            rows.add(
                file=name,
                line=line + text.count(b"\n", 0, text.index(b"{")),
                problem="DEAD",
                communicator="",
                num_communicators=None,
                num_ranks=None,
                collective="",
                last_enqueued=None,
                host=_text(peer.get("host", peer.get("addr"))),
                pid=_number(peer.get("pid")),
                gpu=",".join(map(_text, _items(peer.get("cuda_devs")))),
            )
        line += text.count(b"\n")
    if not len(rows):
        raise UnreadableInputError(
            f"{name} holds {counted(len(events), 'event')} of ncclras -m; no process died.",
            hint="Query the state of the ranks: ncclras -v -f json.",
        )
    return [(RAS_STATEMENTS.name, rows.frame())]


def _unlisted(communicators: Sequence[Mapping[str, object]], name: str) -> pd.DataFrame:
    """A row of RAS_STATEMENTS for each communicator that is larger than its lists of ranks."""
    rows = Rows(RAS_STATEMENTS)
    for communicator in communicators:
        listed = sum(len(_items(communicator.get(key))) for key in ("ranks", "missing_ranks"))
        size = _number(communicator.get("size")) or 0
        if size > listed:
            rows.add(
                file=name,
                line=1,
                problem="",
                communicator=str(communicator.get("hash", "")),
                num_communicators=None,
                num_ranks=size - listed,
                collective="",
                last_enqueued=None,
                host="",
                pid=None,
                gpu="",
            )
    return rows.frame()


def _status(rank: Mapping[str, object], default: str) -> str:
    status = rank.get("status")
    said = mapping_of(status) if isinstance(status, dict) else {}
    if said.get("considered_dead") is True:
        return "dead"
    return "unresponsive" if said.get("unresponsive") is True else default


def _launched(rank: Mapping[str, object]) -> int | None:
    counts = rank.get("collective_counts")
    if not isinstance(counts, dict) or not all(isinstance(count, int) for count in counts.values()):
        return None
    total = sum(counts.values())
    return total if abs(total) < 2**62 else None


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**62 else None


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []
