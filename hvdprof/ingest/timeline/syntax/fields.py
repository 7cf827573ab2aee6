"""A decoded record to what it says, and which records are not Horovod's.

Horovod writes B, E, X (a rank, with its number as the name and length 0), i (a cycle mark without
pid) and M (``process_name`` and ``process_sort_index``); never a thread, a category or an id, which
tools that merge or convert traces add.
"""

import json
import math
from typing import Any, NamedTuple

from hvdprof.ingest.text.whole_number import whole
from hvdprof.ingest.timeline.syntax.record_text import Record, readable

BEGIN, END, TICK, MARK, NAMING = "B", "E", "X", "i", "M"
CYCLE_START = "CYCLE_START"
"""Mark of an iteration of Horovod's loop."""

_ADDED_KEYS = frozenset({"tid", "cat", "id"})
# "Trace Event Format", the document of the Chromium project, lists them.
_KINDS_OF_CHROME = frozenset("BEXiInbesftPpCNODMVvRcSTF()=")
_LARGEST_RANK = 2**31 - 1


class Event(NamedTuple):
    """A timed record; ``pid`` is -1 for marks, ``rank`` -1 for all but ticks."""

    kind: str
    pid: int
    ts_us: int
    name: str = ""
    rank: int = -1
    args: str | None = None


class Naming(NamedTuple):
    """A metadata record; ``tensor`` and ``epoch_us`` where it says them."""

    pid: int
    tensor: str | None
    epoch_us: int | None


class UnusableError(ValueError):
    """A record of Horovod's whose fields are missing or hold something else."""


def meaning(record: Record) -> Event | Naming | None:
    """What a record says; ``None`` for one that Horovod never writes.

    A record with ``has_added_keys`` is possibly of another trace in the same file.

    Raises:
        UnusableError: A field is missing or holds something else.
    """
    handle = _BY_PH.get(str(record.get("ph")))
    try:
        if handle is None:
            _check_that_chrome_has_it(record)
            return None
        return handle(record)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        if has_added_keys(record):
            return None
        raise UnusableError(str(error)) from error


def has_added_keys(record: Record) -> bool:
    """Whether a record holds a key that other traces have and Horovod never writes."""
    return not _ADDED_KEYS.isdisjoint(record)


def _check_that_chrome_has_it(record: Record) -> None:
    if record.get("ph") not in _KINDS_OF_CHROME:
        raise UnusableError("no kind of record")


def _naming(record: Record) -> Naming | None:
    args = record.get("args")
    if record.get("name") != "process_name" or not isinstance(args, dict):
        return Naming(-1, None, None)
    epoch = args.get("start_time_since_epoch_in_micros")
    tensor = args.get("name")
    if epoch is None and tensor is None:
        return Naming(-1, None, None)
    return Naming(
        whole(record["pid"]),
        None if tensor is None else readable(str(tensor)),
        None if epoch is None else whole(epoch),
    )


def _begin(record: Record) -> Event:
    return Event(BEGIN, whole(record["pid"]), _time(record), _text(record["name"]))


def _end(record: Record) -> Event:
    args = record.get("args")
    said = None if args is None else readable(json.dumps(args, ensure_ascii=False))
    return Event(END, whole(record["pid"]), _time(record), args=said)


def _tick(record: Record) -> Event | None:
    name = record["name"]
    if record.get("dur", 0) != 0 or not isinstance(name, str) or not _is_rank(name):
        return None
    return Event(TICK, whole(record["pid"]), _time(record), rank=int(name))


def _mark(record: Record) -> Event:
    return Event(MARK, -1, _time(record), _text(record["name"]))


def _time(record: Record) -> int:
    value = record["ts"]
    if isinstance(value, float) and math.isfinite(value):
        value = math.floor(value)
    return whole(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise UnusableError(f"{value!r} is not a name")
    return readable(value)


def _is_rank(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= _LARGEST_RANK


_BY_PH = {BEGIN: _begin, END: _end, TICK: _tick, MARK: _mark, NAMING: _naming}
