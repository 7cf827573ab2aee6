"""One dump of the Flight Recorder as columns: what differs per call as arrays, the rest once.

A job of 512 ranks keeps a million calls, of few kinds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hvdprof.ingest.flight_recorder.dump_file import (
    DumpCall,
    call_of,
    described_groups,
    parsed_dump,
)
from hvdprof.model.arrays import Int64s

_SAME = (
    *("process_group", "pg_id", "profiling_name", "input_sizes", "input_dtypes", "output_sizes"),
    *("output_dtypes", "state", "is_p2p", "timeout_ms"),
)
"""Keys of an entry that say what kind of call it is."""

_BITS = 62


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
