"""The collectives of a GPU trace that ran on the host: those of Gloo, which has no kernels.

Gloo copies a tensor of a GPU to the host, reduces it in a thread of its own, and copies it back.
Its annotation begins when the thread takes up the work, which may be long before the GPU has
computed the tensor: the thread waits for the copy first (``cudaStreamSynchronize``).

Tested in ``tests/ingest/kineto/test_copied_calls.py``.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hvdprof.ingest.kineto.collective_calls import CollectiveCall, with_submissions


@dataclass(frozen=True, slots=True)
class StreamWait:
    """A thread that waited for a stream of the GPU, ns."""

    thread: int
    start_ns: int
    end_ns: int


def copied_calls(
    annotated: Sequence[tuple[CollectiveCall, int]],
    submissions: Iterable[tuple[int, int, str]],
    waits: Iterable[StreamWait],
) -> list[CollectiveCall]:
    """Calls of Gloo with tensors of a GPU; each starts when its tensor is on the host.

    A call without a copy to the host, such as a broadcast where it is received, starts with its
    annotation.

    Args:
        annotated: The calls by start of their annotation, with its thread.
        submissions: Start, end and name of the host's operations by start.
        waits: Waits for streams, in any order.
    """
    by_thread: dict[int, list[StreamWait]] = {}
    for wait in sorted(waits, key=lambda wait: wait.end_ns):
        by_thread.setdefault(wait.thread, []).append(wait)
    calls = with_submissions([call for call, _ in annotated], submissions)
    threads = [thread for _, thread in annotated]
    return [
        replace(call, start_ns=_ready_ns(call, by_thread.get(thread, [])), on_gpu=True)
        for call, thread in zip(calls, threads, strict=True)
    ]


def _ready_ns(call: CollectiveCall, waits: Sequence[StreamWait]) -> int | None:
    """The end of the last wait of its thread within the call; its start without one."""
    if call.start_ns is None or call.end_ns is None:
        return call.start_ns
    place = bisect_left(waits, call.end_ns, key=lambda wait: wait.end_ns) - 1
    is_within = place >= 0 and waits[place].start_ns >= call.start_ns
    return waits[place].end_ns if is_within else call.start_ns
