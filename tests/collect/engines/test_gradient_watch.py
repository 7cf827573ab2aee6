import gc
import sys
import weakref
from types import SimpleNamespace

import pytest

from hvdprof.collect.engines.gradient_watch import GradientWatch, WatchedTensor
from hvdprof.collect.steps.step_marks import StepMarks
from hvdprof.collect.steps.time_source import HostClock
from tests.builders.fake_torch import (
    FakeAdasumOptimizer,
    FakeHorovodOptimizer,
    FakeModel,
    FakeOptimizer,
    FakeParameter,
    FakeTime,
    HalfCompression,
)


class Watched:
    """A model of two parameters, its optimizer, and a step that is open at time 0."""

    def __init__(self, make_optimizer=FakeHorovodOptimizer, **options) -> None:
        self.time = FakeTime(0)
        self.model = FakeModel(
            weight=FakeParameter(10),
            frozen=FakeParameter(4, requires_grad=False),
            bias=FakeParameter(2),
        )
        self.optimizer = make_optimizer(self.model, self.time, **options)
        self.source = HostClock(self.time)
        self.marks = StepMarks(self.source)
        self.watch = GradientWatch(self.model, self.optimizer, self.source, self.marks)
        self.begin()

    def begin(self) -> None:
        self.watch.begin_step()
        self.marks.open(self.time())

    def backward(self, *names: str) -> None:
        for name in names:
            self.time.advance(10)
            self.model.parameters[name].accumulate()


def test_ready_times_are_those_of_the_hooks():
    watched = Watched()
    watched.backward("bias", "weight")
    assert watched.watch.ready == [20, 10]


def test_last_of_several_backward_passes_counts():
    watched = Watched()
    watched.backward("bias", "weight", "bias", "weight")
    assert watched.watch.ready == [40, 30]


def test_gradient_of_the_step_before_does_not_count():
    watched = Watched()
    watched.backward("bias", "weight")
    watched.begin()
    watched.backward("weight")
    assert watched.watch.ready == [30, None]


def test_blocked_is_the_time_in_synchronize():
    watched = Watched(wait_ns=100)
    watched.optimizer.step()
    watched.marks.close(watched.time())
    assert watched.marks.blocked == [(0, 100)]
    assert watched.marks.phases == [("optimizer", 0, 105)]


def test_synchronize_that_the_script_calls_itself_counts_too():
    watched = Watched(wait_ns=100)
    watched.optimizer.synchronize()
    watched.time.advance(7)
    watched.optimizer.step_without_synchronize()
    assert watched.marks.blocked == [(0, 100)]
    assert watched.marks.phases == [("optimizer", 0, 100), ("optimizer", 107, 112)]


def test_optimizer_phase_of_the_script_is_not_cut_into_pieces():
    watched = Watched(wait_ns=100)
    watched.marks.enter("optimizer")
    watched.optimizer.step()
    watched.time.advance(3)
    watched.marks.leave("optimizer")
    assert watched.marks.phases == [("optimizer", 0, 108)]
    assert watched.marks.blocked == [(0, 100)]


def test_adasum_blocks_in_its_final_step_and_not_in_its_local_ones():
    watched = Watched(FakeAdasumOptimizer, wait_ns=40)
    watched.marks.enter("backward")
    for name in ("bias", "weight"):
        watched.backward(name)
        watched.optimizer.local_step(watched.model.parameters[name])
    watched.marks.leave("backward")
    watched.optimizer.step()
    assert watched.marks.phases == [("backward", 0, 30), ("optimizer", 30, 70)]
    assert watched.marks.blocked == [(30, 70)]


def test_plain_optimizer_updates_and_never_blocks():
    watched = Watched(FakeOptimizer)
    watched.optimizer.step()
    assert watched.marks.phases == [("optimizer", 0, 5)]
    assert watched.marks.blocked == []
    assert watched.watch.tensors == [WatchedTensor("weight", 40, 0), WatchedTensor("bias", 8, 0)]


def test_bytes_before_and_after_compression_under_horovods_names():
    watched = Watched(compression=HalfCompression)
    assert watched.watch.tensors == [
        WatchedTensor("allreduce.weight", 40, 20),
        WatchedTensor("allreduce.bias", 8, 4),
    ]


def test_at_size_one_nothing_is_sent():
    time = FakeTime()
    model = FakeModel(weight=FakeParameter(10))
    optimizer = FakeHorovodOptimizer(model, time)
    optimizer._requires_update = set()
    source = HostClock(time)
    watch = GradientWatch(model, optimizer, source, StepMarks(source))
    assert watch.tensors == [WatchedTensor("allreduce.weight", 40, 0)]


def test_members_of_a_group_are_named_after_its_first():
    time = FakeTime()
    model = FakeModel(a=FakeParameter(1), b=FakeParameter(1))
    optimizer = FakeHorovodOptimizer(model, time)
    group = tuple(model.parameters.values())
    optimizer._p_to_group = dict.fromkeys(group, group)
    source = HostClock(time)
    watch = GradientWatch(model, optimizer, source, StepMarks(source))
    names = [tensor.name for tensor in watch.tensors]
    assert names == ["grouped_allreduce.a_1of2", "grouped_allreduce.a_2of2"]


def test_remove_leaves_nothing_behind():
    watched = Watched()
    watched.watch.remove()
    watched.watch.remove()
    assert all(not one.hooks for one in watched.model.parameters.values())
    assert watched.optimizer.pre_hooks == []
    assert watched.optimizer.post_hooks == []
    assert "synchronize" not in vars(watched.optimizer)


def test_watch_that_fails_half_way_takes_its_hooks_off():
    time = FakeTime()
    model = FakeModel(weight=FakeParameter(10))
    optimizer = FakeOptimizer(model, time)
    optimizer.register_step_post_hook = None
    source = HostClock(time)
    with pytest.raises(TypeError):
        GradientWatch(model, optimizer, source, StepMarks(source))
    assert model.parameters["weight"].hooks == []


def test_hook_that_fails_is_stored_for_the_end_of_the_step_and_not_raised():
    watched = Watched(wait_ns=100)
    failure = RuntimeError("Event device does not match the stream's device")

    def fail():
        raise failure

    watched.time.__class__ = type("Broken", (FakeTime,), {"__call__": lambda _: fail()})

    watched.model.parameters["weight"].accumulate()
    watched.optimizer.step()

    assert watched.marks.failure is failure
    assert watched.optimizer.num_updates == 1


def test_synchronize_that_raises_raises_and_is_left():
    watched = Watched(wait_ns=100)

    def lost():
        watched.time.advance(7)
        raise ConnectionError("peer is gone")

    watched.watch.remove()
    watched.optimizer.synchronize = lost
    watched.watch = GradientWatch(watched.model, watched.optimizer, watched.source, watched.marks)
    with pytest.raises(ConnectionError, match="peer is gone"):
        watched.optimizer.synchronize()
    assert watched.marks.innermost() == ""
    assert watched.marks.num_waits == 0


def test_synchronize_of_the_scripts_own_stays_and_gets_what_it_is_given():
    watched = Watched()
    watched.watch.remove()
    given = []

    def own(*args, **kwargs):
        given.append((args, kwargs))
        return "own"

    watched.optimizer.synchronize = own
    watch = GradientWatch(watched.model, watched.optimizer, watched.source, watched.marks)
    assert watched.optimizer.synchronize(1, name="two") == "own"
    assert given == [((1,), {"name": "two"})]
    watch.remove()
    assert watched.optimizer.synchronize is own


def test_synchronize_that_was_replaced_meanwhile_is_left_alone():
    watched = Watched()
    later = watched.optimizer.synchronize = lambda: "later"
    watched.watch.remove()
    assert watched.optimizer.synchronize is later


class OwnCompression:
    """A compression of a script, which only the script may call."""

    def compress(self, tensor):
        raise AssertionError("called by the recorder")


class HandedOver:
    """A watched model with an own compression, and what Horovod holds of its gradients."""

    def __init__(self, monkeypatch, **waiting) -> None:
        module = SimpleNamespace(_handle_map={name: (one, one) for name, one in waiting.items()})
        monkeypatch.setitem(sys.modules, "horovod.torch.mpi_ops", module)
        self.watched = Watched(compression=OwnCompression())
        self.weight, _, self.bias = self.watched.model.parameters.values()
        self.watched.optimizer._handles = {}

    def step(self, handles) -> list[int]:
        """The bytes that count after a step with handles by parameter."""
        self.watched.optimizer._handles = {one: (name, None) for one, name in handles.items()}
        self.watched.optimizer.step()
        assert self.watched.marks.failure is None
        return [tensor["sent_bytes"] for tensor in self.watched.watch.declared()]


def test_an_own_compression_is_not_called_and_counts_as_none_before_the_first_step():
    watched = Watched(compression=OwnCompression())
    assert [tensor.sent_bytes for tensor in watched.watch.tensors] == [40, 8]


def test_what_an_own_compression_made_is_seen_in_the_first_step(monkeypatch):
    handed = HandedOver(monkeypatch, a=FakeParameter(3, 1), b=FakeParameter(2, 2))
    assert handed.step({}) == [40, 8]
    assert handed.step({handed.weight: "a", handed.bias: "b"}) == [3, 4]
    assert handed.step({handed.weight: "b", handed.bias: "b"}) == [3, 4]


def test_members_of_a_group_are_submitted_together(monkeypatch):
    handed = HandedOver(monkeypatch, a=(FakeParameter(3, 1), FakeParameter(2, 2)))
    assert handed.step({(handed.weight, handed.bias): "a"}) == [3, 4]


def test_a_gradient_that_was_not_submitted_counts_as_before(monkeypatch):
    handed = HandedOver(monkeypatch, b=FakeParameter(2, 2))
    # Of a sparse one the handle is a function.
    assert handed.step({handed.weight: print, handed.bias: "b"}) == [40, 4]


def test_a_horovod_with_another_layout_is_reported_once_and_the_rest_is_recorded(
    monkeypatch, capsys
):
    handed = HandedOver(monkeypatch)
    monkeypatch.setitem(sys.modules, "horovod.torch.mpi_ops", SimpleNamespace())
    for _ in range(2):
        assert handed.step({handed.weight: "a"}) == [40, 8]
    reported = capsys.readouterr().err
    assert reported.count("compressed sizes are not known: AttributeError") == 1


def test_a_parameter_that_came_later_is_named_after_its_place():
    watched = Watched()
    added = FakeParameter(3)
    watched.optimizer._requires_update.add(added)
    watched.optimizer.param_groups.append({"params": [added]})
    watch = GradientWatch(watched.model, watched.optimizer, watched.source, watched.marks)
    assert watch.tensors[-1] == WatchedTensor("noname.1.0", 12, 12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_optimizer", [FakeOptimizer, FakeHorovodOptimizer, FakeAdasumOptimizer]
)
def test_model_and_optimizer_that_the_script_drops_are_freed(make_optimizer):
    watched = Watched(make_optimizer)
    parameter = weakref.ref(watched.model.parameters["weight"])
    optimizer = weakref.ref(watched.optimizer)

    del watched.model, watched.optimizer
    gc.collect()

    assert (parameter(), optimizer()) == (None, None)
    watched.watch.begin_step()
    watched.watch.remove()
