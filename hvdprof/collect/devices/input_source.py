"""What a rank finds at the ``next`` of torch's data loaders: batches that are ready, and waits.

Only lengths of the loader's own queues are read, so nothing of it changes.

Tested in ``tests/collect/devices/test_input_source.py``.
"""

import time
from collections.abc import Callable

from hvdprof.collect.devices.source import Source, Values
from hvdprof.rundir.recording import sample_format as names

_TOTALS = (names.BATCHES, names.DATA_WAIT, names.FIRST_WAIT, names.EMPTY_WAIT)


class BatchWaits(Source):
    """Adds up the fetches of the training thread; the thread that samples takes the sums.

    Args:
        clock: Nanoseconds.
    """

    scope = names.RANK

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._totals: Values = dict.fromkeys(_TOTALS, 0.0)
        self._lately: dict[str, tuple[float, int]] = {}
        self._longest_s = 0.0
        self._settings: Values = {}
        self._begin_ns = 0
        self._kind = ""

    def begins(self, iterator: object) -> None:
        """A fetch begins from an iterator of a data loader."""
        number = getattr(iterator, "_num_workers", 0)
        self._settings = {names.LOADER_WORKERS: float(number)}
        self._kind = "" if getattr(iterator, "_num_yielded", 1) else names.FIRST_WAIT
        if number and not self._kind:
            self._settings[names.PREFETCH] = float(getattr(iterator, "_prefetch_factor", 0) or 0)
            try:
                self._count(iterator)
            except (AttributeError, NotImplementedError, OSError):
                # A system without lengths of queues, another torch, or a queue that was closed.
                self._lately = {}
        self._begin_ns = self._clock()

    def ends(self) -> None:
        """The batch has come."""
        passed_s = (self._clock() - self._begin_ns) / 1e9
        self._totals[names.BATCHES] += 1
        self._totals[names.DATA_WAIT] += passed_s
        if self._kind:
            self._totals[self._kind] += passed_s
        if self._kind != names.FIRST_WAIT:
            self._longest_s = max(self._longest_s, passed_s)

    def read(self) -> Values:
        """Means since the last call, and sums of all fetches; none before the first batch."""
        lately, self._lately = self._lately, {}
        longest_s, self._longest_s = self._longest_s, 0.0
        if not self._totals[names.BATCHES]:
            return {}
        values = self._totals | self._settings
        if longest_s:
            values[names.LONGEST_WAIT] = longest_s
        return values | {name: total / number for name, (total, number) in lately.items()}

    def _count(self, iterator: object) -> None:
        """Count the batches that workers, and the thread that pins, have finished."""
        # Finished before an earlier one, and put aside.
        tasks = tuple(getattr(iterator, "_task_info").values())  # noqa: B009
        ready = sum(len(task) == 2 for task in tasks) + _length(iterator, "_data_queue")
        found = {names.READY: ready, names.EMPTY: int(not ready)}
        if getattr(iterator, "_pin_memory", False):
            found[names.UNPINNED] = _length(iterator, "_worker_result_queue")
        for name, number in found.items():
            total, times = self._lately.get(name, (0.0, 0))
            self._lately[name] = total + number, times + 1
        self._kind = "" if ready else names.EMPTY_WAIT


BATCH_WAITS = BatchWaits()
"""Those of this process."""


def _length(iterator: object, name: str) -> int:
    size: Callable[[], int] = getattr(iterator, name).qsize
    return size()
