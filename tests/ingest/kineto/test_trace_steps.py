"""A model without DDP or FSDP: its forward pass, its passes of one step, and its engine."""

import json
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.notes import NoteCode
from tests.builders.profiler_traces import (
    BASE_NS,
    COMPUTE,
    Event,
    annotation,
    kernel,
    operation,
    runtime,
)

FUNCTION = "autograd::engine::evaluate_function: "


def forward(at: float, number: int, length: float = 2900) -> list[Event]:
    """Two operators of forward, with the ones that they call, under two numbers."""
    args = {"Sequence number": number, "Fwd thread id": 0}
    return [
        operation("aten::conv2d", at, length / 2, args),
        operation("aten::convolution", at + 10, length / 2 - 20, args),
        operation(
            "aten::relu", at + length / 2, length / 2, args | {"Sequence number": number + 1}
        ),
    ]


def backward(at: float, number: int, length: float = 5000) -> list[Event]:
    """Their functions, from the last number down, and what the last one calls."""
    args = {"Sequence number": number, "Fwd thread id": 1}
    return [
        operation(
            f"{FUNCTION}ReluBackward0", at, length / 2, args | {"Sequence number": number + 1}
        ),
        operation(f"{FUNCTION}ConvolutionBackward0", at + length / 2, length / 2 - 100, args),
        operation("aten::convolution_backward", at + length / 2 + 10, 20, args),
        operation(f"{FUNCTION}torch::autograd::AccumulateGrad", at + length - 100, 100),
    ]


def trace(
    folder: Path, *, passes: int = 1, more: tuple[Event, ...] = (), gpu: bool = False
) -> Path:
    """Steps of 1 ms of data, passes of 3 ms forward and 5 ms backward, and 0.5 ms of update."""
    events, at = [*more], 1_000_000.0
    for step in range(6):
        number = 100 * step
        events.append(annotation("Optimizer.zero_grad#SGD.zero_grad", at, 10))
        # The copy of a batch has the number that the first operator of forward has.
        events.append(operation("aten::to", at + 500, 400, {"Sequence number": number}))
        at += 1000
        for one in range(passes):
            events += forward(at, number + 10 * one)
            events += backward(at + 3000, number + 10 * one)
            if gpu:
                correlation = {"correlation": 10 * step + one, "stream": COMPUTE}
                events.append(runtime("cudaLaunchKernel", at, 5, correlation))
                events.append(kernel("gemm", at + 10, 7900, COMPUTE, correlation))
                events.append(runtime("cudaFree", at + 100, 2000, {"correlation": 1000}))
            at += 8000
        events.append(annotation("Optimizer.step#SGD.step", at, 500))
        at += 500
    path = folder / "trace.json"
    content = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, "traceEvents": events}
    path.write_text(json.dumps(content, indent=1))
    return path


@pytest.mark.parametrize("passes", [1, 3])
def test_forward_begins_with_what_backward_differentiates(tmp_path: Path, passes: int) -> None:
    run = load_run(trace(tmp_path, passes=passes))
    steady = run.steps[~run.steps["warmup"]]
    parts = steady[["forward_ns", "backward_ns", "outside_ns", "optimizer_ns"]].iloc[0]
    assert parts.tolist() == [3e6 * passes, 5e6 * passes, 1e6, 5e5]


def test_a_checkpoint_stays_within_its_backward(tmp_path: Path) -> None:
    again = {"Sequence number": 190, "Fwd thread id": 0}
    inner = tuple(
        event
        for step in range(6)
        for event in (
            operation("aten::conv2d", 1_000_000 + 9500 * step + 6600, 300, again),
            operation(
                f"{FUNCTION}ConvolutionBackward0", 1_000_000 + 9500 * step + 7000, 300, again
            ),
        )
    )
    run = load_run(trace(tmp_path, more=inner))
    steady = run.steps[~run.steps["warmup"]]
    assert set(steady["forward_ns"]) == {3_000_000}
    assert set(steady["backward_ns"]) == {5_000_000}


@pytest.mark.heavy
def test_one_process_is_plain_torch_and_its_time_has_phases(tmp_path: Path) -> None:
    analysis = analyze_run(load_run(trace(tmp_path)))
    assert set(analysis.run.segments["engine"]) == {"torch"}
    (page,) = analysis.pages
    (fact,) = [fact for fact in page.facts if fact.name == "step_parts"]
    assert fact.text.splitlines()[:2] == ["forward 3.00 ms (31.6 %)", "backward 5.00 ms (52.6 %)"]


def test_time_in_cudafree_is_a_note(tmp_path: Path) -> None:
    run = load_run(trace(tmp_path, gpu=True))
    (note,) = [note for note in run.notes if note.code == NoteCode.ALLOCATION]
    assert note.text.startswith("cudaFree and cudaMalloc take 21.1 % of the step time on the host")
    assert not [
        note for note in load_run(trace(tmp_path)).notes if note.code == NoteCode.ALLOCATION
    ]
