"""What a profiler trace says of its process, before its events and behind them.

Tested in ``tests/ingest/kineto/test_trace_file.py``.
"""

import re
from dataclasses import dataclass

from hvdprof.ingest.kineto.trace_records import TraceText
from hvdprof.rundir.json_codec import parse_first

_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*([0-3]?\d{1,18})(?!\d)')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,255})"')
_JOB = re.compile(rb'"distributedInfo"\s*:\s*(\{)')


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """Rank, size, backend, host, groups and base time as ``TraceFile`` has them, and notes."""

    rank: int | None
    size: int | None
    backend: str
    host: str
    groups: dict[str, tuple[int, ...]]
    base_ns: int | None
    notes: list[str]


def trace_header(text: TraceText) -> TraceHeader:
    """The facts around the events; None and empty where they are not stated."""
    around = text.head + b"\n" + text.tail
    job = _JOB.search(around)
    facts: dict[str, object] = {}
    notes = []
    if job is not None:
        try:
            facts = parse_first(around[job.start(1) :])
        except ValueError:
            notes.append("its distributedInfo is damaged")
    rank, size = facts.get("rank"), facts.get("world_size")
    host = _HOST.search(around)
    base = _BASE.search(text.tail) or _BASE.search(text.head)
    return TraceHeader(
        rank=rank if isinstance(rank, int) else None,
        size=size if isinstance(size, int) else None,
        backend=str(facts.get("backend", "")),
        host=host[1].decode("utf-8", "replace") if host else "",
        groups=_groups(facts.get("pg_config")),
        base_ns=int(base[1]) if base else None,
        notes=notes,
    )


def _groups(stated: object) -> dict[str, tuple[int, ...]]:
    """The process groups whose ranks are listed as numbers, without gaps."""
    found = {}
    for group in stated if isinstance(stated, list) else []:
        if not isinstance(group, dict):
            continue
        ranks, size = group.get("ranks"), group.get("pg_size")
        is_list = isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks)
        # Long lists are cut.
        if isinstance(ranks, list) and is_list and ranks and size in (None, len(ranks)):
            found[str(group.get("pg_name", ""))] = tuple(ranks)
    return found
