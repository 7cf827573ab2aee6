"""What a rank finds at the ``next`` of torch's data loaders: batches that are ready, and waits.

Only lengths of the loader's own queues are read, so nothing of it changes.

Tested in ``tests/collect/devices/test_input_source.py``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from hvdprof.collect.devices.source import Source, Values
from hvdprof.rundir.recording import sample_format as names


@dataclass(slots=True)
class _Found:
    """Sums over the fetches since the last sample."""

    number: int = 0
    ready: int = 0
    empty: int = 0
    unpinned: int = 0
    has_queue: int = 0
    has_pin_thread: int = 0
    longest_ns: int = 0


class BatchWaits:
    """Adds up the fetches of the training thread; the thread that samples takes the sums.

    Args:
        clock: Nanoseconds.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._found = _Found()
        self._settings: Values = {}
        self._begin_ns = 0
        self._is_first = self._is_empty = False
        self.number = self.waited_ns = self.first_ns = self.empty_ns = 0

    def begins(self, iterator: object) -> None:
        """A fetch begins from an iterator of a data loader."""
        found = self._found
        number = getattr(iterator, "_num_workers", 0)
        self._is_first, self._is_empty = not getattr(iterator, "_num_yielded", 1), False
        self._settings = {names.LOADER_WORKERS: float(number)}
        tasks = getattr(iterator, "_task_info", None)
        if number and tasks is not None and not self._is_first:
            self._settings[names.PREFETCH] = float(getattr(iterator, "_prefetch_factor", 0) or 0)
            try:
                self._count(iterator, tasks)
            except (AttributeError, NotImplementedError, OSError):
                # A system without lengths of queues, another torch, or a queue that was closed.
                found.has_queue = 0
        self._begin_ns = self._clock()

    def ends(self) -> None:
        """The batch has come."""
        passed_ns = self._clock() - self._begin_ns
        self.number += 1
        self.waited_ns += passed_ns
        self._found.number += 1
        if self._is_first:
            self.first_ns += passed_ns
        else:
            self._found.longest_ns = max(self._found.longest_ns, passed_ns)
        self.empty_ns += passed_ns if self._is_empty else 0

    def taken(self) -> Values:
        """The means since the last call, and the sums of all fetches so far."""
        found, self._found = self._found, _Found()
        if not self.number:
            return {}
        values = {
            names.BATCHES: float(self.number),
            names.DATA_WAIT: self.waited_ns / 1e9,
            names.FIRST_WAIT: self.first_ns / 1e9,
            names.EMPTY_WAIT: self.empty_ns / 1e9,
            **self._settings,
        }
        if found.longest_ns:
            values[names.LONGEST_WAIT] = found.longest_ns / 1e9
        if found.has_queue:
            values[names.READY] = found.ready / found.has_queue
            values[names.EMPTY] = found.empty / found.has_queue
        if found.has_pin_thread:
            values[names.UNPINNED] = found.unpinned / found.has_pin_thread
        return values

    def _count(self, iterator: object, tasks: dict[int, tuple[object, ...]]) -> None:
        """Count the batches that workers, and the thread that pins, have finished."""
        found = self._found
        # Finished before an earlier one, and put aside.
        early = sum(len(task) == 2 for task in tuple(tasks.values()))
        ready = early + _length(iterator, "_data_queue")
        found.has_queue += 1
        found.ready += ready
        found.empty += not ready
        self._is_empty = not ready
        if getattr(iterator, "_pin_memory", False):
            found.has_pin_thread += 1
            found.unpinned += _length(iterator, "_worker_result_queue")


BATCH_WAITS = BatchWaits()
"""Those of this process."""


class InputSource(Source):
    """The input of this process.

    Args:
        waits: Its fetches.
    """

    scope = names.RANK

    def __init__(self, waits: BatchWaits = BATCH_WAITS) -> None:
        self._waits = waits

    def read(self) -> Values:
        """The values now; none where no data loader gave a batch."""
        return self._waits.taken()


def _length(iterator: object, name: str) -> int:
    size: Callable[[], int] = getattr(iterator, name).qsize
    return size()
