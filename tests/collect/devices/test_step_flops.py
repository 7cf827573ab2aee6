"""FLOPs of one warm-up step: against numbers by hand, and without any harm to the training."""

import sys
import threading
import types
from typing import Any

import pytest

from hvdprof.collect.devices.step_flops import StepFlops
from hvdprof.collect.devices.torch_device import TorchDevice
from hvdprof.rundir.recording.sample_format import MEASURES

torch = pytest.importorskip("torch")
BATCH, WIDE, MIDDLE, OUT = 8, 16, 32, 4
BY_HAND = 2 * BATCH * (2 * (WIDE * MIDDLE + MIDDLE * OUT) + MIDDLE * OUT)
"""Forward, the gradients of both weights, and that of what lies between."""


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
def counter(problems: list[str]) -> StepFlops:
    return StepFlops(TorchDevice("cpu"), problems.append)


def train(counter: StepFlops, warmup: tuple[bool, ...] = (True, True, False), **kind: Any) -> None:
    """Steps as a recorder sees them."""
    model = torch.nn.Sequential(torch.nn.Linear(WIDE, MIDDLE), torch.nn.Linear(MIDDLE, OUT))
    model.to(**kind)
    for step, is_warmup in enumerate(warmup):
        counter.begin(step, is_warmup=is_warmup)
        model(torch.ones(BATCH, WIDE, **kind)).sum().backward()
        counter.end()


def test_forward_and_backward_of_the_second_warm_up_step_are_counted(
    counter: StepFlops, problems: list[str]
) -> None:
    assert counter.read() == {}
    train(counter)
    assert counter.read() == {"flop_fp32": BY_HAND}
    assert counter.read().keys() <= MEASURES.keys()
    assert not problems


def test_the_precision_is_that_of_the_operations(counter: StepFlops) -> None:
    train(counter, dtype=torch.bfloat16)
    assert counter.read() == {"flop_bf16": BY_HAND}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        train(counter)
    assert counter.read() == {"flop_bf16": BY_HAND}


def test_no_measured_step_is_counted(
    counter: StepFlops, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "_start", lambda: pytest.fail("it counts"))
    train(counter, (True, False, False))
    assert counter.read() == {}
    assert problems == ["no FLOPs are counted: the second step is no warm-up step"]


def test_each_segment_is_counted_anew(counter: StepFlops) -> None:
    train(counter)
    counter.begin(0, is_warmup=True)
    assert counter.read() == {}


def test_a_step_that_ends_without_its_end_is_closed_by_the_next(counter: StepFlops) -> None:
    counter.begin(0, is_warmup=True)
    counter.begin(1, is_warmup=True)
    torch.ones(2, 2) @ torch.ones(2, 2)
    counter.begin(2, is_warmup=True)
    counted = counter.read()
    torch.ones(2, 2) @ torch.ones(2, 2)
    assert counter.read() == counted == {"flop_fp32": 16}


def test_a_formula_that_fails_does_not_reach_the_training(
    counter: StepFlops, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> int:
        raise ValueError("a new form of mm")

    from torch.utils import flop_counter

    failing_all = dict.fromkeys(flop_counter.flop_registry, failing)
    monkeypatch.setattr(flop_counter, "flop_registry", failing_all)
    train(counter)
    assert counter.read() == {}
    assert problems == [
        "no FLOPs are counted: the step has no operation that the counter knows",
    ]


@pytest.mark.parametrize(
    ("module", "found", "message"),
    [
        ("torch", None, "TensorFlow has no counter that sees one step"),
        (
            "torch._dynamo.utils",
            types.SimpleNamespace(counters={"stats": {"unique_graphs": 1}}),
            "torch.compile hides operations from the counter",
        ),
    ],
)
def test_what_the_counter_does_not_see_has_no_number(
    counter: StepFlops,
    problems: list[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    found: object,
    message: str,
) -> None:
    if found is None:
        monkeypatch.delitem(sys.modules, module)
    else:
        monkeypatch.setitem(sys.modules, module, found)
    counter.begin(1, is_warmup=True)
    counter.end()
    assert counter.read() == {}
    assert problems == [f"no FLOPs are counted: {message}"]


def test_another_thread_may_read_meanwhile(counter: StepFlops) -> None:
    seen: list[object] = []
    counter.begin(1, is_warmup=True)
    thread = threading.Thread(target=lambda: seen.append(counter.read()))
    thread.start()
    thread.join()
    counter.end()
    assert seen == [{}]
