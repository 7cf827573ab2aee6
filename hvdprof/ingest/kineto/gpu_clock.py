"""When a GPU had done what its host had started: the host runs ahead of it.

Tested in ``tests/ingest/kineto/test_traced_run.py``.
"""

from dataclasses import dataclass

import numpy as np

from hvdprof.model.arrays import Int64s


@dataclass(frozen=True, slots=True)
class GpuClock:
    """Moments of the host to moments of its GPU; without kernels, the host's own time.

    ``launched`` are launches in ascending order, ``done`` the last end of the kernels up to each,
    ``begun`` the first start of the kernels from each on.
    """

    launched: Int64s
    done: Int64s
    begun: Int64s

    @classmethod
    def of(cls, launched: Int64s, starts: Int64s, ends: Int64s) -> "GpuClock":
        """From launch, start and end of each kernel that computes, in any order."""
        order = np.argsort(launched, kind="stable")
        return cls(
            launched[order],
            np.maximum.accumulate(ends[order]),
            np.minimum.accumulate(starts[order][::-1])[::-1],
        )

    def done_ns(self, host_ns: int) -> int:
        """When everything that was launched before a moment of the host was done.

        The moment itself where nothing had been launched.
        """
        place = int(np.searchsorted(self.launched, host_ns))
        if not len(self.launched) or not place:
            return host_ns
        return int(self.done[place - 1])

    def next_begin_ns(self, host_ns: int) -> int:
        """When the first kernel launched from a moment of the host on began.

        As ``done_ns`` where none was.
        """
        place = int(np.searchsorted(self.launched, host_ns))
        if place >= len(self.launched):
            return self.done_ns(host_ns)
        return int(self.begun[place])
