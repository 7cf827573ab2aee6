"""Calls with exact times: collections of garbage, checkpoints, recompilations, retries."""

import gc
import importlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hvdprof.collect.lines.named_calls import COLLECTION, NamedCalls
from hvdprof.collect.lines.user_code import UserCode
from hvdprof.collect.standing import Moment

MS = 1_000_000


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[NamedCalls]:
    # A test before may have imported torch's compiler.
    monkeypatch.delitem(sys.modules, "torch._dynamo.callback", raising=False)
    moment = Moment("main", 4, "forward", threading.get_ident())
    made = NamedCalls(lambda: moment, UserCode())
    made.hook()
    yield made
    made.remove()
    made.remove()


def test_a_long_collection_is_noted(calls: NamedCalls) -> None:
    garbage: list[Any] = [[] for _ in range(1_000_000)]
    for one in garbage:
        one.append(one)
    del garbage, one
    before_ns = time.monotonic_ns()
    gc.collect()
    after_ns = time.monotonic_ns()
    (call,) = [call for call in calls.over() if call["start_ns"] >= before_ns]

    assert call["name"] == COLLECTION
    assert before_ns <= call["start_ns"] < call["start_ns"] + call["dur_ns"] <= after_ns
    assert call["dur_ns"] > (after_ns - before_ns) // 2
    assert (call["file"], call["segment"], call["step"]) == (__file__, "main", 4)
    assert call["detail"].startswith("generation 2, ")


def test_short_collections_are_not(calls: NamedCalls) -> None:
    gc.collect(0)

    assert [call for call in calls.over() if call["dur_ns"] < MS] == []


def test_after_the_end_nothing_is_noted(calls: NamedCalls) -> None:
    number = len(gc.callbacks)
    calls.remove()

    assert len(gc.callbacks) == number - 1


@pytest.mark.torch
def test_a_checkpoint_is_noted_with_the_line_that_writes_it(
    calls: NamedCalls, tmp_path: Path
) -> None:
    torch: Any = importlib.import_module("torch")
    # Loaded after the hooks of the fixture: as a script does before its first step.
    calls.remove()
    calls.hook()
    torch.save({"weights": torch.zeros(3_000_000)}, tmp_path / "model.pt")
    (call,) = [call for call in calls.over() if call["name"] == "torch.save"]

    assert call["file"] == __file__
    assert call["line"] > 50
    assert call["detail"] == "model.pt"
    assert call["dur_ns"] >= MS
    assert torch.save is torch.serialization.save
    calls.remove()
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.pt")
    assert list(calls.over()) == []


@pytest.mark.torch
def test_a_checkpoint_that_fails_fails_as_ever(calls: NamedCalls) -> None:
    torch: Any = importlib.import_module("torch")
    calls.hook()
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save({}, "/nowhere/model.pt")


class Handler:
    """As torch 2.13 has it."""

    def __init__(self) -> None:
        self.start: list[Any] = []
        self.end: list[Any] = []

    def register_start_callback(self, call: Any) -> None:
        self.start.append(call)

    def register_end_callback(self, call: Any) -> None:
        self.end.append(call)

    def compiles(self, *given: object) -> None:
        for call in self.start:
            call(*given)
        time.sleep(0.003)
        for call in self.end:
            call(*given)


def test_recompilations_are_noted_and_first_compilations_are_not(
    calls: NamedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, handler = ModuleType("torch._dynamo.callback"), Handler()
    vars(compiler)["callback_handler"] = handler
    monkeypatch.setitem(sys.modules, compiler.__name__, compiler)
    list(calls.over())
    for given in ([SimpleNamespace(compile_id="1/0")], [SimpleNamespace(compile_id="1/2")], []):
        handler.compiles(*given)
    found = [call for call in calls.over() if call["name"] != COLLECTION]

    assert [(call["name"], call["detail"]) for call in found] == [
        ("torch.compile recompilation", "frame 1/2")
    ]
    assert found[0]["file"] == __file__
    assert found[0]["dur_ns"] >= 3 * MS


def test_a_compiler_without_such_calls_is_left_alone(
    calls: NamedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = ModuleType("torch._dynamo.callback")
    monkeypatch.setitem(sys.modules, compiler.__name__, compiler)

    assert [call for call in calls.over() if call["name"] != COLLECTION] == []


def test_retries_of_the_allocator_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    now, retries = [0], [0]
    cuda = SimpleNamespace(
        is_initialized=lambda: True, memory_stats=lambda: {"num_alloc_retries": retries[0]}
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    calls = NamedCalls(lambda: Moment("main", 4, "", 1), UserCode(), lambda: now[0])

    assert list(calls.over()) == []
    retries[0], now[0] = 3, 1_000 * MS
    assert list(calls.over()) == []
    now[0] = 2_500 * MS
    (call,) = calls.over()
    assert (call["name"], call["dur_ns"], call["start_ns"]) == ("cudaMalloc retry", 0, 2_500 * MS)
    assert call["detail"] == "3 in at most 2 s"
    now[0] = 5_000 * MS
    assert list(calls.over()) == []


def test_a_checkpoint_of_a_module_that_is_loaded_later_is_one_call_with_its_parts(
    calls: NamedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, checkpoint = ModuleType("torch"), ModuleType("torch.distributed.checkpoint")
    vars(parts)["save"] = lambda *_: time.sleep(0.003)

    def save(state: object, *, checkpoint_id: str) -> None:
        parts.save(state, "part")
        beside = threading.Thread(target=parts.save, args=(state, "beside"))
        beside.start()
        beside.join()

    vars(checkpoint)["save"] = save
    for module in (parts, checkpoint):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    calls._next_look_ns = 0
    list(calls.over())
    checkpoint.save({}, checkpoint_id="/saved/step-40")
    found = [call for call in calls.over() if call["name"] != COLLECTION]

    assert [(call["name"], call["detail"]) for call in found] == [
        ("torch.distributed.checkpoint.save", "step-40")
    ]
    assert found[0]["dur_ns"] >= 6 * MS
