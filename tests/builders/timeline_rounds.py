"""Timelines of training steps whose delays of each rank are known."""

from collections.abc import Mapping, Sequence

from tests.builders.timeline_writer import TimelineWriter

TENSORS = ("allreduce.a", "allreduce.b")
EXECUTION_US = 10_000


def write_rounds(
    writer: TimelineWriter,
    delays_ms: Sequence[Mapping[int, float]],
    *,
    num_ranks: int,
    compute_ms: float | Sequence[float] = 50,
    ticks: bool = True,
    tensors: Sequence[str] = TENSORS,
) -> TimelineWriter:
    """Write one step for each entry of ``delays_ms``: how much later a rank submits its tensors.

    Ranks without a delay submit at once. All submit all tensors together, so that the wait for the
    last rank in a step is the delay of the latest minus that of the one before.
    """
    for number, delays in enumerate(delays_ms):
        pause = compute_ms if isinstance(compute_ms, (int, float)) else compute_ms[number]
        writer.now_us += round(pause * 1000)
        start = writer.now_us
        for tensor in tensors:
            writer.begin(tensor, "NEGOTIATE_ALLREDUCE")
        order = sorted(range(num_ranks), key=lambda rank: (delays.get(rank, 0), rank))
        for rank in order:
            writer.now_us = max(writer.now_us, start + round(delays.get(rank, 0) * 1000))
            for tensor in tensors if ticks or number == 0 else ():
                writer.rank(tensor, rank)
        for tensor in tensors:
            writer.end(tensor)
        for tensor in tensors:
            writer.begin(tensor, "ALLREDUCE")
        writer.now_us += EXECUTION_US
        for tensor in tensors:
            writer.end(tensor, dtype="float32", shape="[1000]")
    return writer


def submit(
    writer: TimelineWriter, ranks: Sequence[int], *, tensors: Sequence[str] = TENSORS
) -> TimelineWriter:
    """Begin to negotiate tensors that some ranks submit and others never do."""
    for tensor in tensors:
        writer.begin(tensor, "NEGOTIATE_ALLREDUCE")
        for rank in ranks:
            writer.rank(tensor, rank)
    return writer
