"""CUDA events against the profiler's kernels, on traces that are written here."""

import json

import pytest

from hvdprof.bench_models import gpu_marks
from hvdprof.bench_models.gpu_marks import compare_marks
from tests.builders.places import needs_gpu

STEP_US = 10_000


def _steps(num: int, *, forward_ns: int = 3_000_000, late_ns: int = 0):
    return [
        {
            "start_ns": 1_000_000_000 + number * STEP_US * 1_000 + (number % 2) * late_ns,
            "phases": [("forward", 0, forward_ns), ("backward", forward_ns, 6_000_000)],
        }
        for number in range(num)
    ]


def _trace(num: int):
    """Host annotations ahead of the GPU, whose kernels are 3 and 6 ms of each 10 ms."""
    events = []
    for number in range(num):
        host = 100.0 + number * 500
        events += [
            _annotation("hvdprof step", host, 400),
            _annotation("hvdprof forward", host + 10, 100),
            _annotation("hvdprof backward", host + 120, 200),
            _annotation("another", host, 400),
        ]
        begin = 7_000.0 + number * STEP_US
        kernels = [
            (host + 20, begin, 1_000),
            (host + 60, begin + 1_000, 2_000),
            # Launched by the thread of backward, as all that happens within the annotation.
            (host + 150, begin + 3_000, 6_000),
            (host + 350, begin + 9_000, 1_000),
        ]
        for place, (launch, start, length) in enumerate(kernels):
            args = {"correlation": 10 * number + place + 1}
            events += [
                {"cat": "cuda_runtime", "name": "launch", "ts": launch, "dur": 5, "args": args},
                {"cat": "kernel", "name": "k", "ts": start, "dur": length, "args": args},
            ]
    return events


def _annotation(name: str, ts: float, dur: float):
    return {"cat": "user_annotation", "name": name, "ts": ts, "dur": dur}


def test_lengths_on_the_gpu_are_compared_and_not_those_of_the_host():
    found = compare_marks(_steps(20), _trace(20))
    assert [(one.name, one.num, one.agrees) for one in found] == [
        ("step", 19, True),
        ("forward", 20, True),
        ("backward", 20, True),
    ]
    assert [(one.event_ns, one.profiler_ns, one.error_ns) for one in found] == [
        (1e7, pytest.approx(1e7), pytest.approx(0, abs=1)),
        (3e6, pytest.approx(3e6), pytest.approx(0, abs=1)),
        (6e6, pytest.approx(6e6), pytest.approx(0, abs=1)),
    ]


def test_marks_of_the_host_instead_of_the_gpu_do_not_agree():
    forward = compare_marks(_steps(20, forward_ns=100_000), _trace(20))[1]
    assert (forward.event_ns, forward.agrees) == (1e5, False)
    # Every second step late: the right median length, and wrong all the same.
    step = compare_marks(_steps(21, late_ns=2_000_000), _trace(21))[0]
    assert (step.error_ns, step.agrees) == (pytest.approx(2e6), False)


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="3 steps, the recorder 4"):
        compare_marks(_steps(4), _trace(3))
    without = [event for event in _trace(3) if event["cat"] != "kernel"]
    with pytest.raises(ValueError, match="no kernel in a step"):
        compare_marks(_steps(3), without)


@pytest.mark.torch
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert gpu_marks.main([]) == 1
    assert "sees no GPU here" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.torch
@needs_gpu
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_cuda_events_agree_with_the_profiler(capsys: pytest.CaptureFixture[str]):
    assert gpu_marks.main(["--steps", "20"]) == 0
    marks = json.loads(capsys.readouterr().out)["marks"]
    assert [one["name"] for one in marks] == ["step", "forward", "backward"]
