"""What a rank finds at the ``next`` of its data loaders."""

import queue
from types import SimpleNamespace
from typing import Any

import pytest

from hvdprof.collect.devices.copy_source import BatchWaits


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def filled(number: int) -> Any:
    made: queue.Queue[int] = queue.Queue()
    for one in range(number):
        made.put(one)
    return made


def iterator(**given: Any) -> Any:
    """An iterator of torch's, of two workers; five batches are out, one of them is here early."""
    usual = {
        "_num_workers": 2,
        "_prefetch_factor": 3,
        "_num_yielded": 7,
        "_task_info": {0: (0,), 1: (1, "batch"), 2: (0,), 3: (1,), 4: (0,)},
        "_data_queue": filled(1),
        "_pin_memory": False,
    }
    return SimpleNamespace(**usual | given)


def fetch(
    waits: BatchWaits, clock: Clock, one: Any, seconds: float, *, more_aside: int = 0
) -> None:
    """A fetch, in which so many later batches are put aside until the one that is next comes."""
    waits.begins(one)
    clock.now_ns += round(seconds * 1e9)
    if hasattr(one, "_task_info"):
        one._task_info |= {100 + number: (1, "batch") for number in range(more_aside)}
    waits.ends()


def test_batches_that_are_ready_and_waits_are_counted() -> None:
    clock = Clock()
    waits = BatchWaits(clock)
    fetch(waits, clock, iterator(), 0.25)
    fetch(waits, clock, iterator(_data_queue=filled(0), _task_info={}), 0.5)

    assert waits.read() == {
        "batches": 2.0,
        "batch_wait": 0.75,
        "first_batch_wait": 0.0,
        "empty_queue_wait": 0.5,
        "longest_batch_wait": 0.5,
        "batches_ready": 1.0,
        "queue_empty": 0.5,
        "num_workers": 2.0,
        "prefetch_factor": 3.0,
    }
    # What only grows stays; the rest is of the fetches since.
    assert waits.read().keys().isdisjoint({"batches_ready", "longest_batch_wait"})


@pytest.mark.parametrize(
    ("queued", "more_aside", "is_late"),
    [
        # It was first in the queue; it was behind a later batch that was there, too.
        (1, 0, False),
        (2, 1, False),
        # The batches that were there are later ones: it comes from a slower worker.
        (1, 1, True),
        (3, 3, True),
        (0, 0, True),
    ],
)
def test_a_batch_behind_a_slower_worker_was_not_ready(
    queued: int, more_aside: int, is_late: bool
) -> None:
    clock = Clock()
    waits = BatchWaits(clock)
    fetch(waits, clock, iterator(_data_queue=filled(queued)), 0.25, more_aside=more_aside)
    values = waits.read()

    assert values["batches_ready"] == queued + 1
    assert (values["queue_empty"], values["empty_queue_wait"]) == (is_late, 0.25 * is_late)


def test_a_batch_that_was_put_aside_is_ready() -> None:
    clock = Clock()
    waits = BatchWaits(clock)
    one = iterator(_data_queue=filled(0))
    waits.begins(one)
    del one._task_info[1]
    waits.ends()

    assert waits.read()["queue_empty"] == 0


def test_the_first_batch_of_an_iterator_counts_by_itself() -> None:
    clock = Clock()
    waits = BatchWaits(clock)
    fetch(waits, clock, iterator(_num_yielded=0), 2.0)
    values = waits.read()

    assert (values["batch_wait"], values["first_batch_wait"]) == (2.0, 2.0)
    assert "batches_ready" not in values
    assert "longest_batch_wait" not in values


def test_batches_that_wait_to_be_pinned_are_not_ready() -> None:
    clock = Clock()
    waits = BatchWaits(clock)
    one = iterator(
        _task_info={}, _data_queue=filled(0), _pin_memory=True, _worker_result_queue=filled(4)
    )
    fetch(waits, clock, one, 0.1)
    values = waits.read()

    assert (values["queue_empty"], values["batches_unpinned"]) == (1.0, 4.0)


def test_without_workers_there_is_no_queue() -> None:
    clock = Clock()
    waits = BatchWaits(clock)
    fetch(waits, clock, SimpleNamespace(_num_workers=0, _num_yielded=1), 0.1)
    values = waits.read()

    assert values["num_workers"] == 0
    assert values.keys() == {
        *("batches", "batch_wait", "first_batch_wait", "longest_batch_wait", "num_workers"),
        "empty_queue_wait",
    }


@pytest.mark.parametrize("missing", [NotImplementedError, OSError])
def test_a_queue_without_a_length_leaves_the_waits(missing: type[Exception]) -> None:
    def unknown() -> int:
        raise missing

    clock = Clock()
    waits = BatchWaits(clock)
    fetch(waits, clock, iterator(_data_queue=SimpleNamespace(qsize=unknown)), 0.1)
    values = waits.read()

    assert values["batch_wait"] == pytest.approx(0.1)
    assert "queue_empty" not in values


def test_without_a_loader_nothing_is_said() -> None:
    assert BatchWaits().read() == {}
