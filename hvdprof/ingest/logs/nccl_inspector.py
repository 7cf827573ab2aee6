"""What NCCL's Inspector plugin writes: one JSON object per line and completed collective.

Up to format 4.0 each line has its header and metadata. From 4.4 on they stand in a line of their
own, and hold for the lines behind it, up to the next such line.

Arrow reads the records of a block at once; others come one by one, to the same columns.
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.storage.row_buffer import MISSING, Packed
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import Part, UntouchedLines
from hvdprof.model.arrays import Int64s
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.rank_collective_tables import INSPECTOR_COLLECTIVES
from hvdprof.rundir.json_codec import parse_json

_WANTED = anywhere(r'"coll_perf"', r'"p2p_perf"', r'"inspector_output_format_version"')
_ALONE = r'^\{"[^\r<]*_perf"[^\r<]*\}\n?$'
_ODD = r" NCCL |\\u|NaN|Inf|[0-9]{19}|[0-9][eE]\+?[0-9]{3}|[^\x01-\x7e]"
"""What Arrow does not take as ``parse_json``."""

_LARGEST = 2**52
"""Sizes and times stay far below, also multiplied with ranks or by 1000."""

_MOST, _MOST_WAITING = 2**62, 4096
_PER_RANK = ("allgather", "reducescatter")
_PREFIXES = ("coll", "p2p")
_NEEDED = ("seq", "message_bytes", "exec_ns")
_BORDER = "\0"
"""Stands between texts: no text of JSON holds it without an escape."""

_NUMBER, _TEXT = pa.float64(), pa.string()
_EVENT = pa.struct([("kernel_start_ts", _NUMBER), ("kernel_stop_ts", _NUMBER)])
_CALL = {
    "call": ("{}", _TEXT),
    "sn": ("{}_sn", _NUMBER),
    "size": ("{}_msg_size_bytes", _NUMBER),
    "exec": ("{}_exec_time_us", _NUMBER),
    "timing_source": ("{}_timing_source", _TEXT),
    "algbw": ("{}_algobw_gbs", _NUMBER),
    "busbw": ("{}_busbw_gbs", _NUMBER),
    "algo": ("coll_algo", _TEXT),
    "proto": ("coll_proto", _TEXT),
    "trace": ("event_trace_ts", pa.struct([("kernel_events", pa.list_(_EVENT))])),
}
"""The fields of a call by their names here: what the file calls them, and their types."""

_HEADER = [("id", _TEXT), ("comm_name", _TEXT)]
_HEADER += [(name, _NUMBER) for name in ("rank", "n_ranks", "nnodes")]
_RECORD = pa.struct(
    [("header", pa.struct(_HEADER)), ("metadata", pa.struct([("hostname", _TEXT)]))]
    + [
        (f"{prefix}_perf", pa.struct([(name.format(prefix), of) for name, of in _CALL.values()]))
        for prefix in _PREFIXES
    ]
)
_SCHEMA = pa.schema(list(_RECORD))


class NcclInspector(PartReader):
    """Collectives of an Inspector log, as rows of INSPECTOR_COLLECTIVES."""

    TABLES = (INSPECTOR_COLLECTIVES,)
    KIND = "NCCL Inspector log"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._waiting: list[tuple[int, object]] = []
        self._looked_at: Part | None = None
        self._bounds: list[int] = []
        self._before = {name: pa.nulls(1, _RECORD.field(name).type) for name in _SCHEMA.names[:2]}
        self._num_damaged = self._num_headless = 0

    @property
    def wanted(self) -> str:
        """Lines with a collective or a header."""
        return _WANTED

    def read_ahead(self, part: Part, place: int) -> int:
        """Read records that stand alone in their lines from a place on, as ``Ahead``.

        Nothing in them is for another reader, and looking for that takes longer than reading them.
        """
        if not isinstance(part, UntouchedLines) or not part.is_plain:
            return place
        if part is not self._looked_at:
            self._looked_at, is_alone = part, np.zeros(len(part) + 1, dtype=np.bool_)
            is_alone[part.places(_ALONE)] = True
            is_alone[part.places(_ODD) if is_alone.any() else []] = False
            self._bounds = np.flatnonzero(np.diff(is_alone, prepend=False)).tolist()
        # Runs of such records begin at even places of their bounds, and end at odd ones.
        after = bisect_right(self._bounds, place)
        if after % 2 == 0:
            return place
        end = self._bounds[after]
        begin, behind = part.block.bounds[[place, end]].tolist()
        records = _parsed(part.block.data[begin:behind])
        if records is not None and len(records) == end - place:
            self.finish()
            self._add_records(part.numbers[place:end], records)
        else:
            for line in filter(None, map(part.line, range(place, end))):
                self.take(line)
        return end

    def take(self, line: PrintedLine) -> None:
        """Look at the next line."""
        text = line.text
        begin = text.find("{")
        if begin < 0 or ("_perf" not in text and "inspector_output_format_version" not in text):
            return
        try:
            record = parse_json(text[begin:])
        except ValueError:
            # Only what looks like a record is one that was cut.
            self._num_damaged += '"coll_perf"' in text or '"p2p_perf"' in text
            return
        if isinstance(record, dict):
            self._waiting.append((line.number, _typed(record, _RECORD)))
        if len(self._waiting) >= _MOST_WAITING:
            self.finish()

    def finish(self) -> None:
        """Add the records that came one by one."""
        if self._waiting:
            numbers, records = zip(*self._waiting, strict=True)
            self._waiting = []
            self._add_records(numbers, pa.Table.from_pylist(records, _SCHEMA))

    def notes(self) -> list[Note]:
        """Damaged records, and those that stand before the first header."""
        self.finish()
        damaged = "damaged Inspector records are left out"
        headless = "Inspector records stand before the first header: "
        headless += "their communicator and rank are unknown"
        found = (
            (NoteCode.DAMAGED, self._num_damaged, damaged),
            (NoteCode.NO_RANKS, self._num_headless, headless),
        )
        return [Note(code, f"{n} {text}", number=n) for code, n, text in found if n]

    def _add_records(self, lines: Sequence[int], records: pa.Table) -> None:
        head, host = (self._carried(name, records) for name in self._before)
        coll, p2p = (_calls(records, prefix) for prefix in _PREFIXES)
        calls = pc.coalesce(coll, p2p)
        is_call = _flags(calls.is_valid()) & _flags(pc.not_equal(_text(calls, "call"), ""))
        numbers, is_absurd = _numbers(calls, head)
        is_call &= np.min([numbers[name] for name in _NEEDED], axis=0) >= 0
        rows = np.flatnonzero(is_call & ~is_absurd)
        is_headless = pc.and_(*(pc.struct_field(head, name).is_null() for name in ("id", "rank")))
        self._num_damaged += len(calls) - calls.null_count - int(is_call.sum())
        self.num_absurd += int(is_call.sum()) - len(rows)
        self._num_headless += int(_flags(is_headless)[is_call].sum())
        texts = {
            "communicator": _text(head, "id"),
            "communicator_name": _text(head, "comm_name"),
            "host": _text(host, "hostname"),
            "point_to_point": pc.if_else(coll.is_null(), "p2p", ""),
            "collective": _text(calls, "call"),
            "timing_source": _text(calls, "timing_source"),
            "algorithm": _text(calls, "algo"),
            "protocol": _text(calls, "proto"),
        }
        joined = pc.binary_join_element_wise(*texts.values(), _BORDER).take(pa.array(rows))
        coded = joined.dictionary_encode()
        distinct = [
            self._texts(dict(zip(texts, text.split(_BORDER), strict=True)))
            for text in coded.dictionary.to_pylist()
        ]
        numbers["line"] = np.array(lines, dtype=np.int64)
        if distinct:
            columns = {name: values[rows] for name, values in numbers.items()}
            self.rows.extend(distinct, coded.indices.to_numpy(), columns)

    def _carried(self, name: str, records: pa.Table) -> pa.StructArray:
        """For each record its own object of a name, or that of the nearest record before it."""
        every = pa.concat_arrays([self._before[name], records.column(name).combine_chunks()])
        places = np.where(_flags(every.is_valid()), np.arange(len(every)), 0)
        carried = every.take(pa.array(np.maximum.accumulate(places)[1:]))
        self._before[name] = carried[-1:]
        return carried

    def _texts(self, said: dict[str, str]) -> tuple[object, ...]:
        """A row without its numbers, which are columns of their own."""
        own = {"file": self._file, "point_to_point": bool(said["point_to_point"])}
        for name in ("algorithm", "protocol"):
            own[name] = "" if said[name] == "unknown" else said[name]
        return tuple((said | own).get(name) for name in INSPECTOR_COLLECTIVES.column_names)


def _parsed(data: bytes) -> pa.Table | None:
    """The records of whole lines; None where one is damaged or has a value of another type."""
    try:
        return arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(
                explicit_schema=_SCHEMA,
                newlines_in_values=False,
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid:
        return None


def _typed(value: object, kind: pa.DataType) -> object:
    """A value of JSON as Arrow has it in records; None where it is of another type."""
    if kind == _TEXT:
        return None if value is None else str(value).replace(_BORDER, "")
    if isinstance(value, dict) and pa.types.is_struct(kind):
        return {of.name: _typed(value.get(of.name), of.type) for of in kind}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_typed(one, kind.value_type) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float) or kind != _NUMBER:
        return None
    return float(value)


def _calls(records: pa.Table, prefix: str) -> pa.StructArray:
    """The calls of one kind, with the names of ``_CALL``."""
    found = records.column(f"{prefix}_perf").combine_chunks()
    return pa.StructArray.from_arrays(found.flatten(), list(_CALL), mask=found.is_null())


def _flags(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _text(of: pa.StructArray, name: str) -> pa.StringArray:
    return pc.fill_null(pc.struct_field(of, name), "")


def _floats(of: pa.StructArray, name: str) -> npt.NDArray[np.float64]:
    return np.asarray(pc.struct_field(of, name).to_numpy(zero_copy_only=False), dtype=np.float64)


def _numbers(
    calls: pa.StructArray, head: pa.StructArray
) -> tuple[dict[str, Packed], npt.NDArray[np.bool_]]:
    """The columns of numbers, and which rows hold one that fits none."""
    size, ranks = _wholes(_floats(calls, "size")), _wholes(_floats(head, "n_ranks"))
    is_per_rank = pc.is_in(pc.utf8_lower(_text(calls, "call")), pa.array(_PER_RANK))
    factor = np.where(_flags(is_per_rank) & (ranks > 0), ranks, 1)
    rank = _wholes(_floats(head, "rank"))
    is_absurd = (size.astype(np.float64) * factor >= _MOST) | (rank >= 2**31)
    rates = {f"{name}_gb_s": _floats(calls, name) for name in ("algbw", "busbw")}
    for rate in map(np.abs, rates.values()):
        is_absurd |= (rate >= _MOST) | ((rate > 0) & (rate < 1 / _MOST))
    first, last = _kernel_span(pc.struct_field(calls, ["trace", "kernel_events"]))
    return {
        "rank": rank,
        "num_ranks": ranks,
        "num_nodes": _wholes(_floats(head, "nnodes")),
        "seq": _wholes(_floats(calls, "sn")),
        "message_bytes": size,
        "size_bytes": size * factor,
        "exec_ns": _nanoseconds(_floats(calls, "exec")),
        "start_ns": first,
        "end_ns": last,
        **rates,
    }, is_absurd


def _wholes(values: npt.NDArray[np.float64]) -> Int64s:
    """Whole numbers that fit; ``MISSING`` instead of others."""
    known = (values >= 0) & (values < _LARGEST) & (values == np.floor(values))
    return np.where(known, np.where(known, values, 0).astype(np.int64), MISSING)


def _nanoseconds(micros: npt.NDArray[np.float64]) -> Int64s:
    """Times in us, whole or not, in ns; ``MISSING`` where one is no time."""
    known = (micros >= 0) & (micros < _LARGEST)
    valid = np.where(known, micros, 0)
    # Unix times in ns are no exact floating-point numbers.
    found = valid.astype(np.int64) * 1000 + np.rint(valid % 1 * 1000).astype(np.int64)
    return np.where(known, found, MISSING)


def _kernel_span(events: pa.ListArray) -> tuple[Int64s, Int64s]:
    """The first start and the last stop of the kernels of each call on its channels, Unix ns."""
    each, call = pc.list_flatten(events), pc.list_parent_indices(events).to_numpy()
    start, stop = (_nanoseconds(_floats(each, f"kernel_{end}_ts")) for end in ("start", "stop"))
    # A callback that did not fire leaves 0.
    is_timed = (start > 0) & (stop >= start)
    first, last = np.full(len(events), _MOST), np.full(len(events), MISSING)
    np.minimum.at(first, call[is_timed], start[is_timed])
    np.maximum.at(last, call[is_timed], stop[is_timed])
    return np.where(last < 0, MISSING, first), last
