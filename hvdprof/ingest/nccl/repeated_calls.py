"""Collective calls that repeat an earlier one but for its counter: most lines of a long log.

Arrow splits them a block at a time into what stands before the message, the operation, its counter,
and what stands behind the buffers. Equal parts are looked at once.

Tested in ``tests/ingest/nccl/test_scanner.py``.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hvdprof.ingest.nccl.calls import REST_OF_CALL, Call, call_values
from hvdprof.ingest.nccl.line_prefixes import Head
from hvdprof.ingest.nccl.line_reader import LineKinds
from hvdprof.ingest.nccl.logbook import Logbook
from hvdprof.ingest.text.line_filter import as_lines
from hvdprof.ingest.text.printed_lines import UntouchedLines
from hvdprof.model.arrays import Int64s

_CALL = (
    r"^(?P<head>[^ \n]+ \[[0-9]{1,4}\] )NCCL INFO (?P<name>[0-9A-Za-z_]{1,32}): opCount "
    r"(?P<count>[0-9a-f]{1,15}) sendbuff 0x[0-9a-f]{1,16} recvbuff 0x[0-9a-f]{1,16} "
    r"(?P<rest>count [^\n]*)\n$"
)
_ODD = re.compile(r"CCL|<std|\d{19}")
"""In the rest of a line that the reader of single lines has to look at."""

_FEWEST = 16
"""So many calls in a row are worth it."""

_LONGEST = 2048
_DIGITS = 16
_VALUES = 16 ** np.arange(_DIGITS - 1, -1, -1, dtype=np.int64)


class RepeatedCalls:
    """Adds calls whose process, communicator and kind are known to the logbook.

    Args:
        log: Gets the rows.
        kinds: Counts the lines.
        heads: Process and prefix by the text before `NCCL INFO`, as far as they are known.
    """

    def __init__(
        self, log: Logbook, kinds: LineKinds, heads: Mapping[str, tuple[int, Head]]
    ) -> None:
        self._log, self._kinds, self._heads = log, kinds, heads
        self._lines: UntouchedLines | None = None
        self._num_members = 0
        self._rows: dict[int, tuple[object, ...]] = {}
        self._process: dict[int, int] = {}

    def read(self, lines: UntouchedLines, place: int, file: str) -> int:
        """Read from a place on what repeats known calls; returns the place behind that."""
        if lines is not self._lines:
            self._split(lines)
        if self._codes[place] < 0:
            return place
        if self._num_members != len(self._log.members):
            # A pointer may belong to a new communicator.
            self._rows, self._num_members = {}, len(self._log.members)
        after = bisect_left(self._others, place)
        end = self._others[after] if after < len(self._others) else len(self._codes)
        codes, places = np.unique(self._codes[place:end], return_index=True)
        for number in np.argsort(places).tolist():
            if not self._is_known(int(codes[number]), file):
                end = place + int(places[number])
                break
        if end - place < _FEWEST:
            return place
        self._add(place, end, file)
        return end

    def _split(self, lines: UntouchedLines) -> None:
        self._lines, self._rows = lines, {}
        block = lines.block
        parts = pc.extract_regex(as_lines(block.data, block.bounds), _CALL)
        is_call = parts.is_valid().to_numpy(zero_copy_only=False)
        is_call &= np.diff(block.bounds) < _LONGEST
        is_call &= block.data.isascii() and b"\r" not in block.data
        self._others: list[int] = np.flatnonzero(~is_call).tolist()
        of_heads, of_names, counts, of_rests = parts.flatten()
        heads, names, rests = map(_Part.of, (of_heads, of_names, of_rests))
        self._counts: Int64s = _numbers(counts)
        keys = (heads.codes * len(names.texts) + names.codes) * len(rests.texts) + rests.codes
        _, firsts, codes = np.unique(keys, return_index=True, return_inverse=True)
        self._codes: Int64s = np.where(is_call, codes, -1)
        self._firsts: list[int] = firsts.tolist()
        self._texts = heads, names, rests

    def _is_known(self, code: int, file: str) -> bool:
        """Whether a call is understood without reading its line; keeps its row then."""
        if code in self._rows:
            return True
        first = self._firsts[code]
        head, name, rest = (part.texts[int(part.codes[first])] for part in self._texts)
        found = REST_OF_CALL.match(rest)
        line = self._lines.line(first) if self._lines and not _ODD.search(rest) else None
        if found is None or line is None or self._kinds.times(file, name) is None:
            return False
        text = line.text.partition("NCCL INFO ")[0]
        count, dtype, reduction, root, pointer, _ = found.groups()
        process, _ = self._heads.get(text, (-1, None))
        of_process = self._log.processes[process]
        member = of_process.by_pointer.get(pointer)
        if process < 0 or not head.endswith(text) or not of_process.says_coll or member is None:
            return False
        one = Call(name, 0, int(count), int(dtype), int(reduction), int(root))
        values = call_values(self._log.members[member], one, "COLL")
        self._rows[code] = (*values, of_process.host, of_process.pid, file, 0)
        self._process[code] = process
        return True

    def _add(self, place: int, end: int, file: str) -> None:
        codes, firsts, which = np.unique(
            self._codes[place:end], return_index=True, return_inverse=True
        )
        # Categories are in the order of their first rows.
        order = np.argsort(firsts)
        codes, which = codes[order], np.argsort(order)[which]
        numbers = np.array(self._lines.numbers[place:end] if self._lines else [], dtype=np.int64)
        self._log.rows["nccl_calls"].extend(
            [self._rows[code] for code in codes.tolist()],
            which,
            {"op_count": self._counts[place:end], "line": numbers},
        )
        lasts = np.zeros(len(codes), dtype=np.int64)
        np.maximum.at(lasts, which, numbers)
        times = np.bincount(which)
        for number in np.argsort(lasts).tolist():
            row, process = self._rows[codes[number]], self._process[codes[number]]
            self._log.processes[process].progress = file, int(lasts[number])
            self._kinds.add(file, str(row[2]), int(times[number]))


def _numbers(texts: pa.Array) -> Int64s:
    """Hexadecimal numbers of 15 digits at most; 0 for none."""
    padded = pc.utf8_lpad(pc.fill_null(texts, b"0").cast(pa.string()), _DIGITS, "0")
    digits = np.frombuffer(padded.buffers()[2], np.uint8, len(texts) * _DIGITS)
    # Letters begin one after a multiple of 16, digits at one.
    values = (digits & 15) + 9 * (digits >> 6)
    return np.asarray(values.reshape(-1, _DIGITS) @ _VALUES, dtype=np.int64)


class _Part:
    """A part of each line: its different texts, and which of them each line has."""

    def __init__(self, texts: list[str], codes: Int64s) -> None:
        self.texts, self.codes = texts, codes

    @classmethod
    def of(cls, values: pa.Array) -> "_Part":
        coded = pc.dictionary_encode(pc.fill_null(values, b""))
        texts = [text.decode("ascii", "replace") for text in coded.dictionary.to_pylist()]
        return cls(texts, coded.indices.to_numpy().astype(np.int64))
