"""Copies of batches to the GPU as the recorder sees them, beside events around the copy itself.

``python -m benchmarks.gpu_check_copies`` copies batches from pageable and from pinned memory, and
ahead on a stream of their own, computes on them, and prints one JSON object with a line per way.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from hvdprof.collect.devices.copy_source import CopyWaits
from hvdprof.collect.steps.time_source import Event, gpu_events

PAGEABLE, PINNED, AHEAD = "pageable", "pinned, non_blocking", "ahead on a stream of its own"
WAYS = (PAGEABLE, PINNED, AHEAD)
NUM_BATCHES, SHAPE = 20, (128, 3, 224, 224)

_Ends = tuple[Event, Event]


@dataclass(frozen=True, slots=True)
class Seen:
    """One way: what the recorder has per batch, and how long the copies themselves took."""

    way: str
    batch_mb: float
    pageable_share: float
    recorder_ms: float
    copy_ms: float


def measured(way: str, shape: tuple[int, ...] = SHAPE) -> Seen:
    """Copy and compute; the first batches, which make what later ones find made, do not count."""
    waits, said = CopyWaits(), list[str]()
    waits.watch(*gpu_events("cuda"), said.append)
    batches = [torch.randn(shape, pin_memory=way != PAGEABLE) for _ in range(2)]
    weights = torch.randn(2048, 2048, device="cuda")
    copies: list[_Ends] = []
    before: dict[str, float] = {}
    for number, inputs in enumerate(_inputs(way, batches, waits, copies)):
        waits.forward_begins([inputs])
        for _ in range(40):
            weights = (weights @ weights).clamp(-1, 1)
        if number == 4:
            torch.cuda.synchronize()
            waits.fetched([])
            before = waits.read()
            copies.clear()
    torch.cuda.synchronize()
    waits.fetched([])
    if said:
        raise RuntimeError(said[0])
    after = waits.read()
    grown = {name: value - before[name] for name, value in after.items()}
    num = round(grown["copied"] / batches[0].nbytes)
    return Seen(
        way,
        batches[0].nbytes / 1e6,
        grown["copied_pageable"] / grown["copied"],
        grown["copy_gpu"] / num * 1e3,
        sum(begin.elapsed_time(end) for begin, end in copies) / len(copies),
    )


def _inputs(
    way: str, batches: list[Tensor], waits: CopyWaits, copies: list[_Ends]
) -> Iterator[Tensor]:
    """The inputs of the forward passes, each copied when it is asked for, or one before."""
    stream = torch.cuda.Stream() if way == AHEAD else torch.cuda.current_stream()  # type: ignore[no-untyped-call]
    make, _ = gpu_events("cuda")
    ready: Tensor | None = None
    for number in range(NUM_BATCHES):
        batch = batches[number % 2]
        waits.fetched(batch)
        if ready is not None:
            torch.cuda.current_stream().wait_stream(stream)
        begin, end = make(), make()
        with torch.cuda.stream(stream):
            begin.record(stream)
            copied: Tensor | None = batch.to("cuda", non_blocking=way != PAGEABLE)
            end.record(stream)
        copies.append((begin, end))
        if way == AHEAD:
            ready, copied = copied, ready
        if copied is not None:
            yield copied


def main() -> None:
    """Measure all ways and print them."""
    print(json.dumps({"copies": [asdict(measured(way)) for way in WAYS]}))


if __name__ == "__main__":
    main()
