"""A part of a text to records, for one thread; what is known is shared and must not change.

Tested in ``tests/ingest/timeline/compiled/test_kernel.py``.
"""

import numpy as np

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.compiled.kernel import FOUND_WIDTH, NUM_RECORDS, PLACES_WIDTH, parse
from hvdprof.ingest.timeline.compiled.kernel_pairs import RECORD_BYTES
from hvdprof.ingest.timeline.compiled.kernel_spans import Spans
from hvdprof.model.arrays import Int32s


class Records:
    """Room for the records of a part of a text.

    Attributes:
        records: Their memory as 64 and as 32 bits.
        count: How many the last ``fill`` found.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._content = np.empty(room * RECORD_BYTES, np.uint8)
        self._found = np.zeros(FOUND_WIDTH, np.int64)
        self._places = np.zeros(PLACES_WIDTH, np.int64)
        self.records = (self._content.view(np.int64), self._content.view(np.int32))
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether there was no room for another record."""
        return self.count >= self._room

    def fill(
        self,
        chunks: Chunks,
        part: tuple[int, int],
        names: Spans,
        args: Spans,
        codes: Int32s,
    ) -> int:
        """Parse a part (from, to) of the window; the place of what was not taken.

        Records that reach beyond the part are not taken. Meanwhile nothing may be learned and the
        window may not be moved.
        """
        place, end = part
        # This reference keeps the memory until the compiled code returns.
        data = chunks.data
        self._places[:] = (
            data.ctypes.data,
            end,
            names.places.ctypes.data,
            len(names.slots),
            args.places.ctypes.data,
            len(args.slots),
            codes.ctypes.data,
            len(codes),
            self._found.ctypes.data,
            self._content.ctypes.data,
            self._room,
            0,
        )
        after = int(parse(self._places.ctypes.data, place))
        self.count = int(self._places[NUM_RECORDS])
        return after
