"""CUDA events of the recorder beside torch.profiler: do both see the same steps?

``python -m hvdprof.bench_models.gpu_marks`` trains a model on a GPU with the recorder and the
profiler at once and prints one JSON object with a list per length. The profiler's length of a step
is the distance between the first kernels of two steps; that of a phase reaches from its first
kernel to the end of its last one. A kernel belongs to the annotation in which the host launched it:
the profiler's own annotations on the GPU lose kernels that backward launches from its thread.

Tested in ``tests/bench_models/test_gpu_marks.py``.
"""

import argparse
import bisect
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.recorder_format import StepLine

PREFIX = "hvdprof "
STEP = "step"
PHASES = ("forward", "backward")

AGREES_SHARE, AGREES_NS = 0.05, 100_000.0
"""Marks and profiler agree within this share of the length, or within this time."""

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Event = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Lengths of one name by both, medians in ns; ``error_ns`` is that of their differences."""

    name: str
    num: int
    event_ns: float
    profiler_ns: float
    error_ns: float
    agrees: bool


def compare_marks(steps: Sequence[StepLine], events: Iterable[Event]) -> list[Agreement]:
    """The lengths of steps and phases by the recorder's CUDA events and by the profiler.

    Args:
        steps: The recorded steps that were profiled, in their order.
        events: The events of the profiler's Chrome trace.

    Raises:
        ValueError: The profiler saw no kernel in a step, or another number of steps.
    """
    spans = _kernel_spans(list(events))
    if len(spans[STEP]) != len(steps):
        raise ValueError(f"the profiler has {len(spans[STEP])} steps, the recorder {len(steps)}")
    lengths = {
        STEP: (
            [float(after["start_ns"] - before["start_ns"]) for before, after in pairwise(steps)],
            [(after[0] - before[0]) * 1e3 for before, after in pairwise(spans[STEP])],
        )
    }
    for phase in PHASES:
        recorded = [
            float(sum(length for name, _, length in step["phases"] if name == phase))
            for step in steps
        ]
        lengths[phase] = recorded, [(end - begin) * 1e3 for begin, end in spans[phase]]
    return [_agreement(name, *both) for name, both in lengths.items()]


def _agreement(name: str, by_events: list[float], by_profiler: list[float]) -> Agreement:
    error_ns = statistics.median(
        abs(one - other) for one, other in zip(by_events, by_profiler, strict=True)
    )
    profiler_ns = statistics.median(by_profiler)
    return Agreement(
        name=name,
        num=len(by_events),
        event_ns=statistics.median(by_events),
        profiler_ns=profiler_ns,
        error_ns=error_ns,
        agrees=error_ns <= max(AGREES_SHARE * profiler_ns, AGREES_NS),
    )


def _kernel_spans(events: Sequence[Event]) -> dict[str, list[tuple[float, float]]]:
    """By name of an annotation, begin and end of its kernels in microseconds, one per step."""
    launched = {
        _correlation(event): _number(event, "ts")
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    kernels = sorted(
        (launched[_correlation(event)], _number(event, "ts"), _number(event, "dur"))
        for event in events
        if event.get("cat") == "kernel" and _correlation(event) in launched
    )
    launch_times = [kernel[0] for kernel in kernels]
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in (STEP, *PHASES)}
    annotations = sorted(
        (event for event in events if event.get("cat") == "user_annotation"),
        key=lambda event: _number(event, "ts"),
    )
    for event in annotations:
        name = str(event.get("name", "")).removeprefix(PREFIX)
        if name not in spans or not str(event.get("name", "")).startswith(PREFIX):
            continue
        begin = _number(event, "ts")
        first = bisect.bisect_left(launch_times, begin)
        last = bisect.bisect_right(launch_times, begin + _number(event, "dur"))
        own = kernels[first:last]
        if not own:
            raise ValueError(f"the profiler has no kernel in a {name}")
        spans[name].append(
            (min(kernel[1] for kernel in own), max(kernel[1] + kernel[2] for kernel in own))
        )
    return spans


def _number(event: Event, key: str) -> float:
    value = event.get(key)
    return float(value) if isinstance(value, int | float | str) else float("nan")


def _correlation(event: Event) -> int:
    args = event.get("args")
    value = args.get("correlation") if isinstance(args, dict) else None
    return value if isinstance(value, int) else -1


def measure(num_steps: int, batch_size: int) -> list[Agreement]:
    """Train on the GPU with recorder and profiler at once.

    Raises:
        ValueError: The profiler saw no kernel in a step, or another number of steps.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    from hvdprof import collect
    from hvdprof.bench_models.registry import model_named
    from hvdprof.collect.session_factory import RECORDER_DIR

    entry = model_named("resnet18")
    model = entry.build().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images = torch.randn(batch_size, 3, 224, 224, device="cuda")
    labels = torch.randint(0, entry.num_classes, (batch_size,), device="cuda")

    def train(count: int, *, warmup: bool) -> None:
        for _ in range(count):
            with collect.step(samples=batch_size, warmup=warmup), record_function(PREFIX + STEP):
                optimizer.zero_grad()
                with collect.phase("forward"), record_function(PREFIX + "forward"):
                    loss = torch.nn.functional.cross_entropy(model(images), labels)
                with collect.phase("backward"), record_function(PREFIX + "backward"):
                    loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        torch.cuda.synchronize()

    with tempfile.TemporaryDirectory() as folder:
        os.environ[RECORDER_DIR] = folder
        collect.start(rank=0, size=1, local_rank=0, local_size=1, device="cuda:0")
        train(10, warmup=True)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            train(num_steps, warmup=False)
        collect.stop()
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        recorded = (Path(folder) / "rank-0.jsonl").read_bytes()
    lines = [from_bytes(text) for text in recorded.splitlines()]
    steps = [line for line in lines if line["kind"] == "step" and not line["warmup"]]
    return compare_marks(steps, events)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the agreement; 0 where there is a GPU and all lengths agree, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m hvdprof.bench_models.gpu_marks", description=__doc__
    )
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64)
    options = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        sys.stderr.write(f"torch {torch.__version__} sees no GPU here.\n")
        return 1
    try:
        found = measure(options.steps, options.batch_size)
    except ValueError as error:
        sys.stderr.write(f"The profiler cannot be compared: {error}.\n")
        return 1
    sys.stdout.write(json.dumps({"marks": [asdict(mark) for mark in found]}) + "\n")
    return 0 if all(mark.agrees for mark in found) else 1


if __name__ == "__main__":
    sys.exit(main())
