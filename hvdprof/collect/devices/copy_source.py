"""Batches of a rank: those that are ready for it, and how long they take on their way to the GPU.

The batch that comes from a data loader is looked at, and so are the inputs of the forward pass;
events on the stream that computes mark both, and are read a batch later without a wait. A copy on
another stream lies outside them, unless the stream that computes waits for it.

``Tensor.to`` itself stays as it is. A replaced one is another function for ``__torch_function__``:
torchvision's images would leave it as plain tensors. It is in C, so nothing else sees its calls.

Tested in ``tests/collect/devices/test_copy_source.py`` with a stand-in for the GPU.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import NamedTuple, Protocol, cast

from hvdprof.collect.devices.sample_window import Source, Values
from hvdprof.collect.steps.time_source import Event
from hvdprof.rundir.recording import sample_format as names

MOST_TENSORS = 64
"""Of one batch; further ones are not counted."""

MOST_UNREAD = 64
"""Batches whose events the GPU has not passed; later ones are not counted."""

_MOST_NESTED = 4

_TOTALS = (names.BATCHES, names.DATA_WAIT, names.FIRST_WAIT, names.EMPTY_WAIT)


class _Tensor(Protocol):
    shape: tuple[int, ...]
    is_cuda: bool
    nbytes: int

    def is_pinned(self) -> bool:
        """Whether its memory is pinned."""


class _Batch(NamedTuple):
    """A batch on the host, and the event on the GPU when it came; ``ns`` is the host's clock."""

    event: Event
    ns: int
    shapes: frozenset[tuple[int, ...]]
    num_bytes: int
    num_pageable: int


class CopyWaits(Source):
    """Adds up what the training thread sees; the thread that samples takes the sums."""

    scope = names.RANK

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._make_event: Callable[[], Event] | None = None
        self._record: Callable[[Event], None]
        self._report: Callable[[str], None]
        self._batch: _Batch | None = None
        self._unread: deque[tuple[_Batch, Event, int]] = deque()
        self._free: list[Event] = []
        self._totals: Values = {}

    def watch(
        self,
        make_event: Callable[[], Event],
        record: Callable[[Event], None],
        report: Callable[[str], None],
    ) -> None:
        """Look at batches from here on: the model computes on a GPU.

        Args:
            make_event: Makes a CUDA event with times.
            record: Records one on the stream that computes.
            report: Says why batches are no longer looked at.
        """
        self._make_event, self._record, self._report = make_event, record, report
        self._batch = None
        self._unread.clear()

    def fetched(self, batch: object) -> None:
        """A batch has come from a data loader, in the training thread; raises nothing."""
        if self._make_event is not None:
            self._guarded(self._fetched, batch)

    def forward_begins(self, inputs: object) -> None:
        """A forward pass of the training begins: of a batch on the GPU, or not; raises nothing."""
        if self._batch is not None:
            self._guarded(self._enters, inputs)

    def read(self) -> Values:
        """Sums of all batches so far; none before the first was copied."""
        return self._totals

    def _guarded(self, look: Callable[[object], None], at: object) -> None:
        try:
            look(at)
        except Exception as error:
            # A tensor of a class that refuses to say what it is, such as a nested one its shape.
            self._make_event = self._batch = None
            self._report(f"copies to the GPU are not seen: {type(error).__name__}: {error}")

    def _fetched(self, batch: object) -> None:
        self._add_passed()
        if self._batch is not None:
            self._free.append(self._batch.event)
            self._batch = None
        tensors = [one for one in _tensors(batch) if not one.is_cuda]
        if tensors:
            self._batch = _Batch(
                self._now(),
                self._clock(),
                frozenset(tuple(one.shape) for one in tensors),
                sum(one.nbytes for one in tensors),
                sum(one.nbytes for one in tensors if not one.is_pinned()),
            )

    def _enters(self, inputs: object) -> None:
        batch = self._batch
        if batch is None or len(self._unread) >= MOST_UNREAD:
            return
        # What is made on the GPU from numbers of the host was not copied.
        if any(one.is_cuda and tuple(one.shape) in batch.shapes for one in _tensors(inputs)):
            passed_ns = self._clock() - batch.ns
            self._unread.append((batch, self._now(), passed_ns))
            self._batch = None

    def _now(self) -> Event:
        assert self._make_event is not None
        event = self._free.pop() if self._free else self._make_event()
        self._record(event)
        return event

    def _add_passed(self) -> None:
        """Add up the batches whose events the GPU has passed."""
        totals = self._totals or dict.fromkeys(names.COPIES, 0.0)
        while self._unread and self._unread[0][1].query():
            batch, end, host_ns = self._unread.popleft()
            # On two streams, the later event may come first.
            gpu_ms = max(batch.event.elapsed_time(end), 0.0)
            self._free += (batch.event, end)
            more = (batch.num_bytes, batch.num_pageable, gpu_ms / 1e3, host_ns / 1e9)
            # Whole: another thread takes the sums.
            totals = {
                name: totals[name] + part for name, part in zip(names.COPIES, more, strict=True)
            }
            self._totals = totals


def _tensors(value: object) -> Iterator[_Tensor]:
    """The first tensors of a batch or of inputs: in sequences and mappings, not deeper."""
    left, found = [(value, 0)], 0
    while left and found < MOST_TENSORS:
        one, depth = left.pop()
        if hasattr(one, "is_cuda") and hasattr(one, "nbytes"):
            found += 1
            yield cast(_Tensor, one)
        elif depth < _MOST_NESTED and isinstance(one, list | tuple | Mapping):
            inner = one.values() if isinstance(one, Mapping) else one
            left += [(part, depth + 1) for part in list(inner)[:MOST_TENSORS]]


COPY_WAITS = CopyWaits()
"""Those of this process."""


class BatchWaits(Source):
    """Adds up the fetches of the training thread; the thread that samples takes the sums."""

    scope = names.RANK

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._totals: Values = dict.fromkeys(_TOTALS, 0.0)
        self._lately: dict[str, tuple[float, int]] = {}
        self._longest_s = 0.0
        self._settings: Values = {}
        self._begin_ns = 0
        self._kind = ""
        self._fetch: tuple[Mapping[int, Sized], int, int] | None = None

    def begins(self, iterator: object) -> None:
        """A fetch begins from an iterator of a data loader."""
        number = getattr(iterator, "_num_workers", 0)
        self._settings = {names.LOADER_WORKERS: float(number)}
        self._kind = "" if getattr(iterator, "_num_yielded", 1) else names.FIRST_WAIT
        self._fetch = None
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
        if self._fetch is not None:
            # In order: it was ready if the queue held all that were taken out until it came.
            tasks, aside, queued = self._fetch
            is_late = _put_aside(tasks) - aside + 1 > queued
            self._kind = names.EMPTY_WAIT if is_late else ""
            self._add(names.EMPTY, int(is_late))
            self._fetch = None
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
        tasks: Mapping[int, Sized] = getattr(iterator, "_task_info")  # noqa: B009
        aside, queued = _put_aside(tasks), _length(iterator, "_data_queue")
        self._add(names.READY, aside + queued)
        if getattr(iterator, "_pin_memory", False):
            self._add(names.UNPINNED, _length(iterator, "_worker_result_queue"))
        self._fetch = tasks, aside, queued

    def _add(self, name: str, number: int) -> None:
        total, times = self._lately.get(name, (0.0, 0))
        self._lately[name] = total + number, times + 1


BATCH_WAITS = BatchWaits()
"""Those of this process."""


def _put_aside(tasks: Mapping[int, Sized]) -> int:
    """Batches that were finished before an earlier one."""
    return sum(len(task) == 2 for task in tuple(tasks.values()))


def _length(iterator: object, name: str) -> int:
    size: Callable[[], int] = getattr(iterator, name).qsize
    return size()
