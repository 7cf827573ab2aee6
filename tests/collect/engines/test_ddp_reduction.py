"""Waiting and buckets under DDP, with stand-ins that keep its order of calls."""

from types import SimpleNamespace

import pytest

from hvdprof.collect.engines.ddp_reduction import DdpReduction, recorded_hook
from hvdprof.collect.engines.gradient_watch import GradientWatch, WatchedTensor
from hvdprof.collect.steps.step_marks import StepMarks
from hvdprof.collect.steps.time_source import HostClock
from tests.builders.fake_torch import FakeModel, FakeOptimizer, FakeParameter, FakeTime


class FakeDdp:
    """A wrapped model whose ``backward`` calls back at its end, in the order of asking."""

    def __init__(self, time: FakeTime, size: int = 2, wait_ns: int = 100) -> None:
        self.module = FakeModel(weight=FakeParameter(10), bias=FakeParameter(2))
        self.reducer = object()
        self.process_group = SimpleNamespace(size=lambda: size)
        self._comm_hooks: list = []
        self._time, self._wait_ns = time, wait_ns
        self.asked: list = []

    def named_parameters(self):
        return ((f"module.{name}", one) for name, one in self.module.named_parameters())

    def backward(self) -> None:
        for name in ("bias", "weight"):
            self._time.advance(10)
            self.module.parameters[name].accumulate()
        # DDP asks for its callback when its last bucket is full.
        self.asked.append(lambda: self._time.advance(self._wait_ns))
        self._time.advance(3)
        while self.asked:
            self.asked.pop(0)()
        self._time.advance(1)


class Watched:
    """A watched model, and a step that is open at time 0."""

    def __init__(self, monkeypatch, **options) -> None:
        self.time = FakeTime(0)
        self.model = FakeDdp(self.time, **options)
        monkeypatch.setattr(
            "hvdprof.collect.engines.ddp_reduction._end_of_backward",
            lambda call: self.model.asked.append(call),
        )
        self.source = HostClock(self.time)
        self.marks = StepMarks(self.source)
        optimizer = FakeOptimizer(self.model.module, self.time)
        self.watch = GradientWatch(self.model, optimizer, self.source, self.marks)
        self.begin()

    def begin(self) -> None:
        self.watch.begin_step()
        self.marks.open(self.time())

    def train(self) -> None:
        self.marks.enter("backward")
        self.model.backward()
        self.marks.leave("backward")


def test_blocked_is_what_backward_waits_after_its_own_work(monkeypatch):
    watched = Watched(monkeypatch)
    watched.train()
    assert watched.watch.ready == [20, 10]
    assert watched.marks.blocked == [(23, 123)]
    assert watched.marks.phases == [
        ("backward", 0, 23),
        ("collective", 23, 123),
        ("backward", 123, 124),
    ]


def test_every_backward_of_a_step_is_hooked(monkeypatch):
    watched = Watched(monkeypatch)
    watched.train()
    watched.train()
    assert watched.marks.blocked == [(23, 123), (147, 247)]


def test_backward_that_failed_does_not_hide_the_next_wait(monkeypatch):
    watched = Watched(monkeypatch)
    watched.model.module.parameters["weight"].accumulate()
    watched.model.asked.clear()
    watched.begin()
    watched.train()
    assert len(watched.marks.blocked) == 1


def test_rank_counts_as_waiting_while_ddp_waits(monkeypatch):
    watched = Watched(monkeypatch)
    seen = []
    watched.model._time = SimpleNamespace(  # type: ignore[assignment]
        advance=lambda ns: (seen.append(watched.marks.num_waits), watched.time.advance(ns))
    )
    watched.train()
    assert seen == [0, 0, 0, 1, 0]


def test_names_are_those_of_the_model_inside(monkeypatch):
    watched = Watched(monkeypatch)
    assert watched.watch.tensors == [WatchedTensor("weight", 40, 40), WatchedTensor("bias", 8, 8)]


@pytest.mark.parametrize(
    ("hook", "sent"),
    [("allreduce_hook", 40), ("fp16_compress_hook", 20), ("fp16_compress_wrapper_hook", 20)],
)
def test_bytes_after_compression_by_a_hook(hook, sent):
    model = FakeDdp(FakeTime())
    model._comm_hooks = [(SimpleNamespace(__name__=hook), None)]
    assert DdpReduction(model).sent_bytes(model.module.parameters["weight"]) == sent


def test_one_rank_sends_nothing():
    model = FakeDdp(FakeTime(), size=1)
    assert DdpReduction(model).sent_bytes(model.module.parameters["weight"]) == 0


def test_remove_leaves_nothing_behind(monkeypatch):
    watched = Watched(monkeypatch)
    watched.watch.remove()
    assert all(not one.hooks for one in watched.model.module.parameters.values())


class FakeFuture:
    """A reduction that takes ``reduce_ns``."""

    def __init__(self, time: FakeTime, reduce_ns: int, value: str) -> None:
        self._time, self._reduce_ns, self._value = time, reduce_ns, value

    def value(self) -> str:
        return self._value

    def then(self, call):
        self._time.advance(self._reduce_ns)
        return call(self)


def bucket_of(*parameters):
    return SimpleNamespace(parameters=lambda: list(parameters))


def test_bucket_is_marked_from_its_handing_over_to_its_end(monkeypatch):
    watched = Watched(monkeypatch)
    parameters = watched.model.module.parameters

    def allreduce_hook(state, bucket):
        assert state == "state"
        return FakeFuture(watched.time, 40, "reduced")

    hook = recorded_hook(allreduce_hook, watched.marks, watched.source.now)
    assert hook.__name__ == "allreduce_hook"
    watched.time.advance(5)
    assert hook("state", bucket_of(parameters["bias"], parameters["weight"])) == "reduced"
    (bucket,) = watched.marks.buckets
    assert (bucket.begin, bucket.end, watched.watch.members(bucket)) == (5, 45, [1, 0])


def test_bucket_outside_a_step_is_reduced_all_the_same(monkeypatch):
    watched = Watched(monkeypatch)
    watched.marks.close(watched.time())
    hook = recorded_hook(lambda *_: "future", watched.marks, watched.source.now)
    assert hook(None, bucket_of()) == "future"
    assert watched.marks.buckets == []
