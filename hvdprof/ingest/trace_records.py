"""The records of a Chrome trace file, whatever state its writer left it in.

Horovod 0.28.1 writes one JSON array without line breaks between events; a full disk or a copy made
too early cuts it, older releases never closed it, and names of tensors are written unescaped.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

_DECODER = json.JSONDecoder(strict=False)
_RECORD_START = re.compile(r'\{\s*"(?:ph|name|pid|ts|cat)"\s*:')
# Horovod writes names of tensors as they are, with quotes and backslashes (timeline.cc, 0.28.1).
_RAW_NAME = re.compile(
    r'\{"name": "process_name", "ph": "M", "pid": (\d+), '
    r'"args": \{"name": "((?:(?!"pid": ).)*?)"\}\}'
    r"(?=,?\s*(?:\{|\]|\Z))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TraceRecords:
    """Records in file order; ``num_damaged`` counts places where text had to be passed over."""

    records: list[Record]
    num_damaged: int


def read_records(text: str) -> TraceRecords:
    """The records of a trace file's text; an empty file has none.

    A trace in object form (``{"traceEvents": [...]}``) is read too.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _recovered(text)
    if isinstance(whole, dict):
        whole = whole.get("traceEvents", [])
    items = whole if isinstance(whole, list) else []
    records = [item for item in items if isinstance(item, dict)]
    return TraceRecords(records, len(items) - len(records))


def _recovered(text: str) -> TraceRecords:
    records: list[Record] = []
    num_damaged, end, whole = 0, 0, True
    start = _RECORD_START.search(text)
    while start is not None:
        record, end = _record_at(text, start.start())
        whole = record is not None
        if record is None:
            num_damaged += 1
        else:
            records.append(record)
        start = _RECORD_START.search(text, end)
    cut_before_its_first_key = whole and "{" in text[end:]
    return TraceRecords(records, num_damaged + cut_before_its_first_key)


def _record_at(text: str, start: int) -> tuple[Record | None, int]:
    raw = _RAW_NAME.match(text, start)
    if raw is not None:
        pid, name = raw.groups()
        record = {"name": "process_name", "ph": "M", "pid": int(pid), "args": {"name": name}}
        return record, raw.end()
    try:
        record, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start + 1
    return (record, end) if isinstance(record, dict) else (None, start + 1)
