"""Dumps of the Flight Recorder as columns, and whether several are of one job.

A job of 512 ranks keeps a million calls, of few kinds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from hvdprof import units
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.flight_recorder.dump_file import (
    Dump,
    DumpCall,
    call_of,
    described_groups,
    parsed_dump,
)
from hvdprof.model.arrays import Int64s
from hvdprof.rank_names import ranks_named

_SAME = (
    *("process_group", "pg_id", "profiling_name", "input_sizes", "input_dtypes", "output_sizes"),
    *("output_dtypes", "state", "is_p2p", "timeout_ms"),
)
"""Keys of an entry that say what kind of call it is."""

_BITS = 62

_LONGEST_TIMEOUT_NS = 1_800_000_000_000
"""The longest timeout that PyTorch sets by itself; calls that the ring lost may have had it."""

_HINT = "Give the dumps of all ranks of one job, written in one incident."

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class DumpColumns:
    """The calls in the order of submission.

    ``kinds`` are one call of each kind, and ``kind`` the place of that of each call. A time of the
    wall clock plus ``to_monotonic_ns`` is one of the monotonic clock; None where it is not stated.
    ``groups`` has the ranks of each process group by its name, none where they are not listed.
    """

    kinds: tuple[DumpCall, ...]
    kind: Int64s
    seq: Int64s
    created_ns: Int64s
    to_monotonic_ns: int | None
    groups: Mapping[str, tuple[int, ...]]


def read_dump_columns(path: Path) -> DumpColumns:
    """The calls that a dump of hvdprof's own trace launches holds.

    Raises:
        UnreadableInputError: It is torn, too large, or no dump.
        OSError: It cannot be read.
    """
    content = parsed_dump(path)
    entries = content.get("entries")
    kinds: list[DumpCall] = []
    place_of: dict[str, int] = {}
    rows: list[tuple[int, int, int]] = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        key = repr([entry.get(name) for name in _SAME])
        place = place_of.get(key)
        created, seq = _number(entry, "time_created_ns"), _number(entry, "collective_seq_id")
        if (
            place is not None
            and not kinds[place].is_p2p
            and created is not None
            and seq is not None
        ):
            rows.append((created, seq, place))
            continue
        # Rare: the first call of a kind, sends and receives, numbers as text.
        call = call_of(entry)
        if call is None:
            continue
        if place is None:
            place = place_of[key] = len(kinds)
            kinds.append(call)
        rows.append((call.created_ns, call.seq, place))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    table = table[np.argsort(table[:, 0], kind="stable")]
    return DumpColumns(
        tuple(kinds),
        table[:, 2],
        table[:, 1],
        table[:, 0],
        _to_monotonic_ns(content),
        {name: ranks for name, (_, ranks) in described_groups(content, ()).items()},
    )


def _number(mapping: dict[str, object], key: str) -> int | None:
    value = mapping.get(key)
    return value if type(value) is int and value.bit_length() < _BITS else None


def _to_monotonic_ns(content: dict[str, object]) -> int | None:
    clock = content.get("hvdprof_clock")
    if not isinstance(clock, dict):
        return None
    wall, monotonic = _number(clock, "wall_ns"), _number(clock, "monotonic_ns")
    return None if wall is None or monotonic is None else monotonic - wall


def check_one_job(dumps: Mapping[str, Dump]) -> None:
    """Check that dumps are of one job and one time.

    Ranks that are blocked end by the timeout of their collectives. Calls of one job that are
    further apart than that are of another incident.

    Args:
        dumps: By the name of the file.

    Raises:
        UnreadableInputError: Two are of different jobs.
    """
    _check_groups(dumps)
    stated = (call.timeout_ns or 0 for dump in dumps.values() for call in dump.calls)
    limit_ns = max(stated, default=0)
    limit_ns = max(limit_ns, _LONGEST_TIMEOUT_NS)
    _check_spans(dumps, limit_ns)
    _check_numbers(dumps, limit_ns)


def belong_together(some: Mapping[str, Dump], others: Mapping[str, Dump]) -> bool:
    """Whether two sets of dumps are parts of one job: one group of all ranks, with equal calls.

    Sets without a group whose ranks are listed, or without a call of one number, stay apart.
    """
    dumps = [*some.values(), *others.values()]
    worlds = {_world(dump) for dump in dumps}
    if len(worlds) != 1 or not min(worlds)[1]:
        return False
    name, _ = min(worlds)
    if not _numbered(some, name) & _numbered(others, name):
        return False
    try:
        check_one_job({**some, **others})
    except UnreadableInputError:
        return False
    return True


def group_labels(
    members: Iterable[Mapping[str, tuple[int, ...]]],
) -> dict[tuple[str, tuple[int, ...]], str]:
    """What each process group of a job is called, by its name and its ranks: names of their own.

    ``split_group`` and device meshes number the groups of each rank alike, so that disjoint groups
    share a name. Their calls are no calls of one collective.

    Args:
        members: The ranks of each group by its name, of each rank.
    """
    found: dict[str, set[tuple[int, ...]]] = {}
    for groups in members:
        for name, ranks in groups.items():
            found.setdefault(name, set()).add(ranks)
    return {
        (name, ranks): f"{name} ({ranks_named(ranks)})" if len(sets - {()}) > 1 and ranks else name
        for name, sets in found.items()
        for ranks in sets
    }


def _world(dump: Dump) -> tuple[str, tuple[int, ...]]:
    """Name and ranks of the largest group."""
    groups = ((group.name, group.ranks) for group in dump.groups.values())
    return max(groups, key=lambda group: len(group[1]), default=("", ()))


def _numbered(dumps: Mapping[str, Dump], group: str) -> set[tuple[int, str]]:
    calls = (call for dump in dumps.values() for call in dump.calls)
    return {(call.seq, call.name) for call in calls if call.group == group and not call.is_p2p}


def _check_groups(dumps: Mapping[str, Dump]) -> None:
    """Raise where a rank is in two groups of one name: names are unique to a rank of a job."""
    seen: dict[str, dict[tuple[int, ...], str]] = {}
    for file, dump in dumps.items():
        for group in dump.groups.values():
            known = seen.setdefault(group.name, {})
            if group.ranks in known:
                continue
            for ranks, other in known.items():
                if not set(ranks).isdisjoint(group.ranks):
                    raise UnreadableInputError(
                        f"{other} and {file} are dumps of different jobs: process group "
                        f"{group.name} has {ranks_named(ranks)} in the first, "
                        f"{ranks_named(group.ranks)} in the second.",
                        hint=_HINT,
                    )
            known[group.ranks] = file


def _check_spans(dumps: Mapping[str, Dump], limit_ns: int) -> None:
    spans = {
        file: (dump.calls[0].created_ns, dump.calls[-1].created_ns)
        for file, dump in dumps.items()
        if dump.calls
    }
    if not spans:
        return
    earliest, latest, between_ns = widest_gap(spans)
    if between_ns > limit_ns:
        raise UnreadableInputError(
            f"{earliest} and {latest} are not dumps of one incident: the first call of the second "
            f"is {units.duration(between_ns / 1e9)} after the last one of the first.",
            hint=_HINT,
        )


def _check_numbers(dumps: Mapping[str, Dump], limit_ns: int) -> None:
    """Raise where the ranks of a group submit the call of one number at very different times."""
    first: dict[tuple[str, tuple[int, ...], int], tuple[str, int]] = {}
    for file, dump in dumps.items():
        for call in dump.calls:
            group = dump.groups.get(call.group)
            if call.is_p2p or group is None or not group.ranks:
                continue
            key = (call.group, group.ranks, call.seq)
            other, created_ns = first.setdefault(key, (file, call.created_ns))
            apart_ns = abs(call.created_ns - created_ns)
            if apart_ns > limit_ns:
                raise UnreadableInputError(
                    f"{other} and {file} are dumps of different jobs: call {call.seq} of process "
                    f"group {call.group} is {units.duration(apart_ns / 1e9)} apart.",
                    hint=_HINT,
                )


def widest_gap(spans: Mapping[Key, tuple[int, int]]) -> tuple[Key, Key, int]:
    """The span that ends first, the one that begins last, and the time between; below 0 if common.

    Args:
        spans: Begin and end of each recording; at least one.
    """
    latest = max(spans, key=lambda key: spans[key][0])
    earliest = min(spans, key=lambda key: spans[key][1])
    return earliest, latest, spans[latest][0] - spans[earliest][1]
