"""One dump of the Flight Recorder: its process groups, how far each came, and the calls kept."""

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.flight_recorder.bounded_pickle import RefusedPickleError, load_plain
from hvdprof.ingest.text.small_json import read_small
from hvdprof.rundir.json_codec import without_surrogates
from hvdprof.rundir.regular_file import shown_name

MOST_BYTES = 128 * 2**20
ARRIVALS_ONLY = "gloo:"
"""Gloo leaves every call "scheduled", and counts completions later on one rank than on another."""

_WORLD = "default_pg"
_MOST_CALLS = 1_000_000
_DTYPE_BYTES = {
    "Float": 4, "Half": 2, "BFloat16": 2, "Double": 8, "Byte": 1, "Char": 1, "Bool": 1, "Short": 2,
    "Int": 4, "Long": 8, "ComplexFloat": 8, "ComplexDouble": 16, "UInt16": 2, "UInt32": 4,
    "UInt64": 8, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1,
}  # fmt: skip
_RANKS = re.compile(r"^\[(?:\d{1,7}(?:, ?\d{1,7})*)?\]$")


@dataclass(frozen=True, slots=True)
class DumpGroup:
    """One process group on one rank; ``ranks`` is empty where the dump does not list them.

    The last sequence numbers are None where they are not stated; -1 and 0 mean none yet.
    """

    name: str
    desc: str
    ranks: tuple[int, ...]
    enqueued: int | None
    started: int | None
    completed: int | None


@dataclass(frozen=True, slots=True)
class DumpCall:
    """One call that the ring buffer still holds; ``seq`` counts sends and receives apart."""

    group: str
    seq: int
    name: str
    collective: str
    dtype: str
    size_bytes: int | None
    created_ns: int
    state: str
    is_p2p: bool
    timeout_ns: int | None
    group_desc: str = ""

    @property
    def is_world(self) -> bool:
        """Whether all ranks of the job are members of its group."""
        return self.group_desc == _WORLD


@dataclass(frozen=True, slots=True)
class Dump:
    """What one rank wrote; groups by name, calls in the order of submission."""

    version: str
    library: str
    groups: Mapping[str, DumpGroup]
    calls: Sequence[DumpCall]

    @property
    def possible_ranks(self) -> frozenset[int] | None:
        """The ranks that are members of all groups of this rank; None where none are listed."""
        listed = [set(group.ranks) for group in self.groups.values() if group.ranks]
        return frozenset(set.intersection(*listed)) if listed else None


def read_dump(path: Path) -> Dump:
    """Read one dump, JSON or pickle, compressed or not.

    Raises:
        UnreadableInputError: It is torn, too large, or no dump.
        OSError: It cannot be read.
    """
    with _explained(path):
        content = _mapping(_parsed(_content(path)))
        raw = [_mapping(entry) for entry in _checked_entries(content)]
        calls = [call for call in map(call_of, raw) if call is not None]
        if any(call.name.startswith(ARRIVALS_ONLY) for call in calls):
            calls = [replace(call, state="") for call in calls]
        library = content.get("comm_lib_version", content.get("nccl_version"))
        return Dump(
            version=_text(content.get("version")),
            library=_text(library),
            groups=_groups(content, raw, calls),
            calls=sorted(calls, key=lambda call: call.created_ns),
        )


def parsed_dump(path: Path) -> dict[str, object]:
    """The keys and values of a dump, JSON or pickle, compressed or not.

    Raises:
        UnreadableInputError: It is torn, too large, or no dump.
        OSError: It cannot be read.
    """
    with _explained(path):
        content = dict(_mapping(_parsed(_content(path))))
        _checked_entries(content)
        return content


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise what is wrong with a dump as one message with its name."""
    name = shown_name(path)
    try:
        yield
    except RefusedPickleError as error:
        raise UnreadableInputError(
            f"{name} {error}; it is not read.",
            hint="Dumps of the flight recorder hold plain values alone: write it again.",
        ) from error
    except (ValueError, RecursionError, EOFError) as error:
        reason = str(error) if isinstance(error, _NoDumpError) else "is torn or damaged"
        raise UnreadableInputError(f"{name} {reason}; it is not read.") from error


class _NoDumpError(ValueError):
    """What is wrong with a file that can be parsed."""


def _content(path: Path) -> bytes:
    try:
        return read_small(path, MOST_BYTES)
    except ValueError as error:
        raise _NoDumpError(str(error)) from error


def _parsed(data: bytes) -> object:
    if data.startswith(b"\x80"):
        return load_plain(data)
    value: object = json.loads(data)
    return without_surrogates(value) if b"\\u" in data else value


def _checked_entries(content: Mapping[str, object]) -> Sequence[object]:
    entries = content.get("entries", [])
    if "pg_config" not in content and "pg_status" not in content and not entries:
        raise _NoDumpError("has no process groups and no entries")
    if not isinstance(entries, list | tuple) or len(entries) > _MOST_CALLS:
        raise _NoDumpError("has no usable list of entries")
    return entries


def _groups(
    content: Mapping[str, object], raw: Sequence[Mapping[str, object]], calls: Sequence[DumpCall]
) -> dict[str, DumpGroup]:
    described = described_groups(content, raw)
    names = _names_by_id(content, raw, list(described))
    states = _mapping(content.get("pg_status", {}))
    arrivals_only = any(call.name.startswith(ARRIVALS_ONLY) for call in calls)
    groups = {}
    for pg_id, state in states.items():
        name = names.get(pg_id)
        if name is None:
            continue
        numbers = _mapping(state)
        desc, ranks = described.get(name, ("", ()))
        groups[name] = DumpGroup(
            name,
            desc,
            ranks,
            _whole(numbers.get("last_enqueued_collective")),
            _whole(numbers.get("last_started_collective")),
            None if arrivals_only else _whole(numbers.get("last_completed_collective")),
        )
    for name, (desc, ranks) in described.items():
        if name not in groups:
            own = [call for call in calls if call.group == name and not call.is_p2p]
            ended = [call.seq for call in own if call.state == "completed"]
            groups[name] = DumpGroup(
                name,
                desc,
                ranks,
                max((call.seq for call in own), default=None),
                None,
                None if arrivals_only else max(ended, default=0),
            )
    return groups


def described_groups(
    content: Mapping[str, object], raw: Sequence[Mapping[str, object]]
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Description and ranks of each group by its name; no ranks where a dump does not list them."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for key, value in _mapping(content.get("pg_config", {})).items():
        config = _mapping(value)
        # A process group without a configuration leaves one entry without a name.
        if name := _text(config.get("name")) or key:
            found[name] = _text(config.get("desc")), _ranks(config.get("ranks"))
    for entry in raw:
        name, desc = _group_of(entry)
        found.setdefault(name, (desc, ()))
    return found


def _names_by_id(
    content: Mapping[str, object], raw: Sequence[Mapping[str, object]], names: Sequence[str]
) -> dict[str, str]:
    """The name of the group of each number in ``pg_status``: as entries state it, else by order.

    Both number the groups in the order of their creation, but a rank counts its own alone.
    """
    known = {str(entry.get("pg_id")): _group_of(entry)[0] for entry in raw}
    ids = list(_mapping(content.get("pg_status", {})))
    if len(ids) == len(names) and all(text.isdecimal() for text in (*ids, *names)):
        ordered = dict(zip(sorted(ids, key=int), sorted(names, key=int), strict=True))
        if all(ordered.get(pg_id, name) == name for pg_id, name in known.items()):
            return ordered
    return known


def call_of(entry: Mapping[str, object]) -> DumpCall | None:
    """The call of an entry; None where it says neither when nor which one it is."""
    created = _whole(entry.get("time_created_ns"))
    seq, p2p_seq = _whole(entry.get("collective_seq_id")), _whole(entry.get("p2p_seq_id"))
    if created is None or (seq is None and p2p_seq is None):
        return None
    name = _text(entry.get("profiling_name"))
    group, desc = _group_of(entry)
    operation = name.partition(":")[2] or name
    is_p2p = entry.get("is_p2p") is True or operation.startswith(("send ", "recv "))
    timeout_ms = _whole(entry.get("timeout_ms"))
    dtypes = [str(dtype) for dtype in _sequence(entry.get("input_dtypes"))]
    # The larger of input and output: what nccl-tests counts for every collective.
    sizes = [
        _bytes(entry.get(f"{side}_sizes"), entry.get(f"{side}_dtypes"))
        for side in ("input", "output")
    ]
    return DumpCall(
        group=group,
        seq=(p2p_seq if is_p2p else seq) or 0,
        name=name,
        collective=_collective(operation),
        dtype=dtypes[0] if dtypes else "",
        size_bytes=max((size for size in sizes if size is not None), default=None),
        created_ns=created,
        state=_text(entry.get("state")),
        is_p2p=is_p2p,
        timeout_ns=None if timeout_ms is None else _whole(timeout_ms * 1_000_000),
        group_desc=desc,
    )


def _collective(operation: str) -> str:
    """The field's name of an operation such as ``_all_gather_base`` or ``send 0->1``."""
    word = operation.split(" ")[0].strip("_")
    for suffix in ("_base", "_coalesced", "_into_tensor", "_tensor", "_single", "_barrier"):
        word = word.removesuffix(suffix)
    return word.replace("_", "").upper()


def _bytes(shapes: object, dtypes: object) -> int | None:
    total = 0
    names = [str(name) for name in _sequence(dtypes)]
    tensors = _sequence(shapes)
    if not tensors or len(names) != len(tensors):
        return None
    for shape, name in zip(tensors, names, strict=True):
        dims = [_whole(dim) for dim in _sequence(shape)]
        width = _DTYPE_BYTES.get(name)
        if width is None or None in dims:
            return None
        total += width * math.prod(dim for dim in dims if dim is not None)
    return total if total < 2**62 else None


def _group_of(entry: Mapping[str, object]) -> tuple[str, str]:
    named = [_text(part) for part in _sequence(entry.get("process_group"))]
    if len(named) == 2:
        return named[0], named[1]
    return str(entry.get("pg_id", "")), ""


def _ranks(value: object) -> tuple[int, ...]:
    text = _text(value)
    return tuple(map(int, re.findall(r"\d+", text))) if _RANKS.match(text) else ()


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _NoDumpError("is no dump of the flight recorder")
    return {str(key): one for key, one in value.items()}


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    """A number that a 64-bit column can hold; JSON dumps write some of them as text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return None
