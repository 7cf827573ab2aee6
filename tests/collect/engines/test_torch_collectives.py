"""Which collectives count as waits, of which kind; stand-ins in place of torch."""

import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hvdprof.collect.engines.ddp_reduction import FsdpReduction, is_fsdp
from hvdprof.collect.engines.gradient_watch import GradientWatch
from hvdprof.collect.engines.torch_collectives import CollectiveHooks, CollectiveWaits
from hvdprof.collect.steps.step_marks import StepMarks, WaitMarks
from hvdprof.collect.steps.time_source import HostClock
from tests.builders.fake_torch import FakeModel, FakeOptimizer, FakeParameter, FakeTime

WAIT_NS = 100
NUM_RANKS = 4


def fake_module(name: str) -> Any:
    """A module that takes any attribute."""
    return ModuleType(name)


class FakeWork:
    """What an asynchronous collective returns."""

    time: FakeTime

    def wait(self, timeout=None):
        self.time.advance(WAIT_NS)
        return timeout


class FakeDistributed:
    """``torch.distributed`` whose collectives take 100 ns, and what one rank calls of it."""

    def __init__(self, monkeypatch) -> None:
        self.time = FakeTime(1000)
        self.graph_task = -1
        self.is_compiling = False
        self.torch = fake_module("torch")
        self.torch.compiler = SimpleNamespace(is_compiling=lambda: self.is_compiling)
        self.torch._C = SimpleNamespace(_current_graph_task_id=lambda: self.graph_task)
        self.home = fake_module("torch.distributed.distributed_c10d")
        self.api = fake_module("torch.distributed")
        self.functional = fake_module("torch.distributed._functional_collectives")
        self.torch.distributed = self.api
        self.api.get_world_size = lambda: NUM_RANKS
        self.home.Work = type("Work", (FakeWork,), {"time": self.time})
        self.functional.wait_tensor = lambda tensor: self.home.Work().wait(tensor)
        for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast"):
            self._add(name)
        self.home.all_gather_object = lambda value, group=None: self.home.all_reduce(value, group)
        self.api.all_gather_object = self.home.all_gather_object
        self.script = fake_module("script")
        # By `from torch.distributed import all_reduce`, before anything was recorded.
        self.script.all_reduce = self.home.all_reduce
        for module in (self.torch, self.api, self.home, self.functional, self.script):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        self.source = HostClock(self.time)
        self.marks = StepMarks(self.source)
        self.hooks = CollectiveHooks()
        self.waits = CollectiveWaits(self.marks, self.source, self.torch)
        self.hooks.record(self.waits)
        self.marks.open(self.time())

    def _add(self, name: str) -> None:
        def collective(tensor, group=None, async_op=False):
            work = self.home.Work()
            if async_op:
                return work
            work.wait()
            return None

        collective.__name__ = name
        setattr(self.home, name, collective)
        setattr(self.api, name, collective)

    def call_from(self, module: str, name: str, **options):
        """Call a collective as the code of a module does."""
        code = f"def call(api, options):\n    return api.{name}('tensor', **options)\n"
        names = {"__name__": module}
        exec(code, names)
        return names["call"](self.api, options)

    @property
    def recorded(self):
        """Kind, begin, end, submission and ranks of each wait."""
        return [
            (wait.kind, begin, end, wait.submitted, wait.num_ranks)
            for (begin, end), wait in zip(self.marks.blocked, self.marks.waits, strict=True)
        ]


@pytest.fixture
def distributed(monkeypatch) -> FakeDistributed:
    return FakeDistributed(monkeypatch)


def test_a_collective_of_the_script_is_a_wait_of_all_ranks(distributed):
    distributed.call_from("__main__", "all_reduce")

    assert distributed.recorded == [("user", 1000, 1100, 1000, NUM_RANKS)]
    assert distributed.marks.num_waits == 0
    # A stall report names the call.
    assert distributed.marks.waits_in == ("all_reduce", "")


def test_a_group_says_how_many_ranks_wait(distributed):
    distributed.call_from("__main__", "all_reduce", group=SimpleNamespace(size=lambda: 2))
    distributed.call_from("__main__", "broadcast")

    # From a broadcast some ranks return before others have called it.
    assert [wait[-1] for wait in distributed.recorded] == [2, 0]


def test_a_function_that_was_imported_by_name_is_seen(distributed):
    distributed.script.all_reduce("tensor", None, False)

    assert len(distributed.recorded) == 1


def test_a_collective_that_consists_of_others_is_one_wait(distributed):
    distributed.api.all_gather_object("value")

    assert distributed.recorded == [("user", 1000, 1100, 1000, NUM_RANKS)]


def test_an_asynchronous_collective_waits_where_the_script_does(distributed):
    work = distributed.call_from("__main__", "all_reduce", async_op=True)
    assert distributed.recorded == []
    distributed.time.advance(50)

    assert work.wait("timeout") == "timeout"

    assert distributed.recorded == [("user", 1050, 1150, 1000, NUM_RANKS)]


def test_the_wait_for_an_unknown_work_has_no_known_ranks(distributed):
    distributed.home.Work().wait()
    distributed.functional.wait_tensor("tensor")

    assert distributed.recorded == [
        ("user", 1000, 1100, None, 0),
        ("user", 1100, 1200, None, 0),
    ]


@pytest.mark.parametrize(
    "module", ["torch.distributed.fsdp._fully_shard.x", "torch.distributed._composable.fsdp.x"]
)
def test_collectives_of_fsdp_have_their_kinds(distributed, module):
    distributed.call_from(module, "all_gather_into_tensor")
    distributed.graph_task = 3
    distributed.call_from(module, "all_gather_into_tensor")
    distributed.call_from(module, "reduce_scatter_tensor")
    distributed.call_from("my.fsdp", "all_gather_into_tensor")

    kinds = [kind for kind, *_ in distributed.recorded]
    assert kinds == ["unshard_forward", "unshard_backward", "reduce_scatter", "user"]
    assert distributed.waits.last_reduce_scatter == 1200


def test_a_gpu_only_queues_the_collectives_of_fsdp(distributed):
    streams: Any = type("Stream", (), {"record_event": None, "wait_event": None})
    distributed.torch.cuda = SimpleNamespace(Stream=streams, current_stream=lambda: "compute")
    source = SimpleNamespace(now=distributed.time)
    waits = CollectiveWaits(distributed.marks, source, distributed.torch)
    distributed.hooks.record(waits)

    distributed.call_from("torch.distributed.fsdp.x", "all_gather_into_tensor")
    work = distributed.call_from(
        "torch.distributed.fsdp.x", "all_gather_into_tensor", async_op=True
    )
    distributed.time.advance(50)
    work.wait()
    distributed.call_from("__main__", "all_reduce")

    # Where a work is waited for, and not for an event.
    assert distributed.recorded == [
        ("unshard_forward", 1150, 1250, 1100, NUM_RANKS),
        ("user", 1250, 1350, 1250, NUM_RANKS),
    ]
    # test_stream_waits.py has the waits for events.
    assert streams.record_event is not None


@pytest.mark.parametrize("why", ["outside a step", "part of a wait", "compiling", "over"])
def test_what_is_no_wait_of_the_step_is_not_recorded(distributed, why):
    if why == "outside a step":
        distributed.marks.close(distributed.time())
    elif why == "part of a wait":
        distributed.marks.num_waits = 1
    elif why == "compiling":
        distributed.is_compiling = True
    else:
        distributed.hooks.forget(distributed.waits)

    distributed.call_from("__main__", "all_reduce")
    distributed.home.Work().wait()

    assert distributed.recorded == []


def test_another_thread_is_not_recorded_unless_it_runs_backward(distributed):
    def call():
        distributed.call_from("__main__", "all_reduce")

    for graph_task in (-1, 5):
        distributed.graph_task = graph_task
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    assert len(distributed.recorded) == 1
    distributed.graph_task = -1
    distributed.waits.move_here()
    call()
    assert len(distributed.recorded) == 2


def test_an_exception_of_the_collective_reaches_the_script(distributed):
    with pytest.raises(TypeError):
        distributed.call_from("__main__", "all_reduce", wrong=1)

    assert distributed.marks.num_waits == 0
    assert distributed.marks.failure is None


def test_a_failure_of_the_recorder_does_not(distributed):
    group = SimpleNamespace(size=lambda: 1 / 0)

    assert distributed.call_from("__main__", "all_reduce", group=group) is None

    assert isinstance(distributed.marks.failure, ZeroDivisionError)
    assert distributed.recorded == []


def test_a_listener_hears_of_collectives_before_anything_is_recorded(distributed):
    heard: list[str] = []
    distributed.hooks.listener = lambda: heard.append("collective")
    distributed.call_from("__main__", "all_reduce")
    assert not heard

    distributed.hooks.forget(distributed.waits)
    distributed.call_from("__main__", "all_reduce")
    distributed.call_from("__main__", "broadcast")

    # Parameters are broadcast before the training.
    assert heard == ["collective"]


def test_functions_are_replaced_once(distributed):
    before = distributed.home.all_reduce
    other = CollectiveWaits(distributed.marks, distributed.source, distributed.torch)

    distributed.hooks.record(other)
    distributed.hooks.forget(distributed.waits)

    assert distributed.home.all_reduce is before
    assert distributed.hooks.recording is other


def test_a_sharded_gradient_is_ready_when_its_reduction_was_submitted(distributed, monkeypatch):
    monkeypatch.setattr(
        "hvdprof.collect.engines.ddp_reduction.COLLECTIVES", distributed.hooks, raising=True
    )
    weight = FakeParameter(10)
    kind = type("FSDPModule", (), {})
    model: Any = type("FSDPNet", (kind, FakeModel), {})(weight=weight)
    optimizer = FakeOptimizer(model, distributed.time)
    assert is_fsdp(model, optimizer)
    watch = GradientWatch(model, optimizer, distributed.source, distributed.marks)
    watch.begin_step()

    distributed.call_from("torch.distributed.fsdp.x", "reduce_scatter_tensor")
    weight.accumulate()

    assert watch.ready == [1000]
    watch.begin_step()
    # Its mark may be used again in the next step.
    assert distributed.waits.last_reduce_scatter is None
    assert watch.tensors[0].name == "weight"
    assert watch.tensors[0].sent_bytes == watch.tensors[0].size_bytes > 0


def test_without_a_reduction_it_is_ready_at_its_hook(distributed):
    reduction = FsdpReduction(FakeModel(weight=FakeParameter(10)))

    assert reduction.ready_clock(lambda: 7)() == 7


def test_marks_without_a_kind_are_those_of_gradients():
    marks = StepMarks(HostClock(FakeTime(0)))
    marks.open(0)
    marks.add_blocked(1, 2)

    assert marks.waits == [WaitMarks("grad_reduce")]
