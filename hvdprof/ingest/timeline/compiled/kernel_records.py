"""A part of a text to records, for one thread; what is known is shared and must not change."""

import numpy as np

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.compiled.kernel import FOUND_WIDTH, NUM_RECORDS, parse
from hvdprof.ingest.timeline.compiled.kernel_spans import Spans
from hvdprof.ingest.timeline.machine_code import compiled
from hvdprof.model.arrays import Int32s

_RECORD_BYTES, _WORD_BYTES = 16, 8


class Records:
    """Room for the records of a part of a text.

    Attributes:
        records: Their memory as 64 and as 32 bits.
        count: How many the last ``fill`` found.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        content = np.empty(room * _RECORD_BYTES, np.uint8)
        self._found = np.zeros(FOUND_WIDTH, np.int64)
        self.records = (content.view(np.int64), content.view(np.int32))
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether there was no room for another record."""
        return self.count >= self._room

    def fill(self, chunks: Chunks, start: int, names: Spans, args: Spans, codes: Int32s) -> int:
        """Parse the window from a place on; the place of what was not taken.

        Meanwhile nothing may be learned and the window may not be moved.
        """
        data = chunks.data
        words = np.ndarray(len(data) - _WORD_BYTES + 1, np.uint64, data.data, strides=(1,))
        found, records = self._found, self.records
        after = compiled(parse)(
            (data, words), start, chunks.end, names, args, codes, found, records
        )
        self.count = int(found[NUM_RECORDS])
        return after
