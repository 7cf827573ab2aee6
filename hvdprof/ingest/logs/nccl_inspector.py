"""What NCCL's Inspector plugin writes: one JSON object per line and completed collective.

Up to format 4.0 each line has its header and metadata. From 4.4 on they stand in a line of their
own, and hold for the lines behind it, up to the next such line.
"""

import re
from collections.abc import Iterator, Mapping

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.text.line_filter import anywhere
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import Part, UntouchedLines
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.tables.rank_collective_tables import INSPECTOR_COLLECTIVES
from hvdprof.rundir.json_codec import parse_json

_WANTED = anywhere(r'"coll_perf"', r'"p2p_perf"', r'"inspector_output_format_version"')
_ALONE = re.compile(r'\{"[^\r<]*_perf"[^\r<]*\}\Z').match
_LARGEST = 2**52
_PER_RANK = ("allgather", "reducescatter")


class NcclInspector(PartReader):
    """Collectives of an Inspector log, as rows of INSPECTOR_COLLECTIVES."""

    TABLES = (INSPECTOR_COLLECTIVES,)
    KIND = "NCCL Inspector log"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._header: Mapping[str, object] = {}
        self._metadata: Mapping[str, object] = {}
        self._num_damaged = 0
        self._num_headless = 0

    @property
    def wanted(self) -> str:
        """Lines with a collective or a header."""
        return _WANTED

    def read_ahead(self, part: Part, place: int) -> int:
        """Read records that stand alone in their lines from a place on, as ``Ahead``.

        Nothing in them is for another reader, and looking for that takes longer than reading them.
        """
        while not isinstance(part, UntouchedLines) and place < len(part):
            line = part.line(place)
            if line is None or not _ALONE(line.text) or " NCCL " in line.text:
                break
            try:
                self.take(line)
            except OverflowError:
                self.num_absurd += 1
            place += 1
        return place

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
        if not isinstance(record, dict):
            return
        header, metadata = record.get("header"), record.get("metadata")
        if isinstance(header, dict):
            self._header = header
        if isinstance(metadata, dict):
            self._metadata = metadata
        for key, prefix in (("coll_perf", "coll"), ("p2p_perf", "p2p")):
            perf = record.get(key)
            if isinstance(perf, dict):
                self._take_perf(line.number, perf, prefix)

    def notes(self) -> list[Note]:
        """Damaged records, and those that stand before the first header."""
        found = []
        if self._num_damaged:
            text = f"{self._num_damaged} damaged Inspector records are left out"
            found.append(Note(NoteCode.DAMAGED, text, number=self._num_damaged))
        if self._num_headless:
            text = (
                f"{self._num_headless} Inspector records stand before the first header: their "
                "communicator and rank are unknown"
            )
            found.append(Note(NoteCode.NO_RANKS, text, number=self._num_headless))
        return found

    def _take_perf(self, line: int, perf: Mapping[str, object], prefix: str) -> None:
        name = str(perf.get(prefix, ""))
        seq, size = (_whole(perf.get(f"{prefix}_{key}")) for key in ("sn", "msg_size_bytes"))
        exec_ns = _nanoseconds(perf.get(f"{prefix}_exec_time_us"))
        if not name or seq is None or size is None or exec_ns is None:
            self._num_damaged += 1
            return
        header = self._header
        self._num_headless += not header
        num_ranks = _whole(header.get("n_ranks"))
        times = list(_kernel_times(perf))
        total = size * num_ranks if num_ranks and name.lower() in _PER_RANK else size
        self.add(
            line,
            communicator=str(header.get("id", "")),
            communicator_name=str(header.get("comm_name", "")),
            rank=_whole(header.get("rank")),
            num_ranks=num_ranks,
            num_nodes=_whole(header.get("nnodes")),
            host=str(self._metadata.get("hostname", "")),
            point_to_point=prefix == "p2p",
            collective=name,
            seq=seq,
            message_bytes=size,
            size_bytes=total,
            exec_ns=exec_ns,
            timing_source=str(perf.get(f"{prefix}_timing_source", "")),
            algbw_gb_s=_number(perf.get(f"{prefix}_algobw_gbs")),
            busbw_gb_s=_number(perf.get(f"{prefix}_busbw_gbs")),
            algorithm=_known(perf.get("coll_algo")),
            protocol=_known(perf.get("coll_proto")),
            start_ns=min((start for start, _ in times), default=None),
            end_ns=max((end for _, end in times), default=None),
        )


def _kernel_times(perf: Mapping[str, object]) -> Iterator[tuple[int, int]]:
    """Start and stop of the kernel on each channel, in Unix ns."""
    trace = perf.get("event_trace_ts")
    events = trace.get("kernel_events") if isinstance(trace, dict) else None
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict):
            start = _nanoseconds(event.get("kernel_start_ts"))
            stop = _nanoseconds(event.get("kernel_stop_ts"))
            # A callback that did not fire leaves 0.
            if start and stop and stop >= start:
                yield start, stop


def _whole(value: object) -> int | None:
    # Sizes and times stay far below, also multiplied with ranks or by 1000.
    if type(value) is int:
        return value if 0 <= value < _LARGEST else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 0 <= value < _LARGEST and value == int(value) else None


def _nanoseconds(micros: object) -> int | None:
    """A time in us, whole or not, in ns; None where it is no time."""
    if isinstance(micros, float) and 0 <= micros < _LARGEST:
        # Unix times in ns are no exact floating-point numbers.
        return int(micros) * 1000 + round(micros % 1 * 1000)
    whole = _whole(micros)
    return None if whole is None else whole * 1000


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _known(value: object) -> str:
    return "" if value in (None, "unknown") else str(value)
