"""DDP scripts of one rank in this process; tests/test_run_ddp.py has those of several ranks."""

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from hvdprof.collect.auto.distributed_recording import DistributedRecorder
from hvdprof.rundir.launch_format import AutoSettings
from tests.builders.recorded import of_kind, phase_ns, recorded, steps_of

pytestmark = pytest.mark.torch

BATCH, NUM_BATCHES = 4, 6
SETTINGS = AutoSettings(
    num_warmup_steps=1,
    num_steps=None,
    batch_size=None,
    timeline="/nowhere/timeline.json",
    num_timeline_steps=5,
)


class Subclass(DistributedDataParallel):
    """As some frameworks have one."""


class DdpScript:
    """A script with a wrapped model, and what it may do with it."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
        data = TensorDataset(
            torch.zeros(NUM_BATCHES * BATCH, 3),
            torch.zeros(NUM_BATCHES * BATCH, dtype=torch.int64),
        )
        self.loader = DataLoader(data, BATCH)

    def wrap(self, kind=DistributedDataParallel, **options):
        self.model = kind(self.net, **options)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def loss(self, inputs, labels):
        return torch.nn.functional.cross_entropy(self.model(inputs), labels)

    def train(self):
        for inputs, labels in self.loader:
            self.optimizer.zero_grad()
            self.loss(inputs, labels).backward()
            self.optimizer.step()

    def steps(self, folder):
        """The recorded steps, without a problem."""
        self.recorder.end()
        self.lines = recorded(folder / "rank-0.jsonl")
        assert of_kind(self.lines, "problem") == []
        return steps_of(self.lines, "main")

    def engine(self):
        """What the header says that reduces, after ``steps``."""
        return of_kind(self.lines, "header")[0]["engine"]


@pytest.fixture
def script(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(DistributedDataParallel, "__init__", DistributedDataParallel.__init__)
    for home in (distributed, distributed.distributed_c10d):
        monkeypatch.setattr(home, "destroy_process_group", distributed.destroy_process_group)
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    recorder = DistributedRecorder(distributed, SETTINGS)
    recorder.hook_distributed()
    yield DdpScript(recorder)
    recorder.end()
    if distributed.is_initialized():
        distributed.destroy_process_group()


@pytest.mark.parametrize("kind", [DistributedDataParallel, Subclass])
def test_a_ddp_script_is_recorded_from_its_first_update_on(script, folder, kind):
    script.wrap(kind)
    script.train()

    steps = script.steps(folder)
    assert script.engine() == "ddp"
    assert len(steps) == NUM_BATCHES - 1
    for step in steps:
        assert step["samples"] == BATCH
        assert all(phase_ns(step, one) > 0 for one in ("data", "forward", "backward", "optimizer"))
        assert len(step["blocked"]) == 1
        names = [name for name, _, _ in step["phases"] if name != "before_update"]
        assert names == ["data", "forward", "backward", "collective", "backward", "optimizer"]
        assert all(at > 0 for at in step["ready"])
    (segment,) = of_kind(script.lines, "segment")
    declared = {tensor["name"] for tensor in segment["tensors"]}
    assert declared == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_the_recording_ends_with_the_main_process_group(script, folder):
    script.wrap()
    script.train()
    distributed.destroy_process_group(distributed.new_group([0]))
    script.train()
    distributed.destroy_process_group()

    assert len(script.steps(folder)) == 2 * NUM_BATCHES - 1


def test_a_backward_without_synchronization_has_no_wait(script, folder):
    script.wrap()
    for inputs, labels in script.loader:
        with script.model.no_sync():
            script.loss(inputs, labels).backward()
        script.loss(inputs, labels).backward()
        script.optimizer.step()

    for step in script.steps(folder):
        assert len(step["blocked"]) == 1
        names = [name for name, _, _ in step["phases"]]
        assert names.count("forward") == 2
        assert names.count("collective") == 1


def test_a_first_parameter_without_gradient_hides_no_wait(script, folder):
    script.net = torch.nn.ModuleDict(
        {"unused": torch.nn.Linear(3, 2), "used": torch.nn.Linear(3, 2)}
    )
    script.net.forward = lambda inputs: script.net["used"](inputs)
    script.wrap(find_unused_parameters=True)
    script.train()

    for step in script.steps(folder):
        assert len(step["blocked"]) == 1
        assert sum(at == -1 for at in step["ready"]) == 2


def test_static_graph_and_a_comm_hook_of_the_script(script, folder):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    calls = []

    def own_hook(state, bucket):
        calls.append(bucket)
        return default_hooks.allreduce_hook(state, bucket)

    script.wrap(static_graph=True)
    script.model.register_comm_hook(None, own_hook)
    script.train()

    assert [len(step["blocked"]) for step in script.steps(folder)] == (NUM_BATCHES - 1) * [1]
    assert len(calls) == NUM_BATCHES


def test_a_compiled_model_is_recorded_alike(script, folder):
    script.wrap()
    script.model = torch.compile(script.model, backend="eager")
    script.train()

    for step in script.steps(folder):
        assert len(step["blocked"]) == 1
        assert all(phase_ns(step, one) > 0 for one in ("data", "forward", "backward", "optimizer"))
        assert all(at > 0 for at in step["ready"])


def test_two_wrapped_models_with_an_optimizer_each(script, folder):
    script.wrap()
    other = DistributedDataParallel(torch.nn.Linear(3, 2))
    its_optimizer = torch.optim.Adam(other.parameters())
    for inputs, labels in script.loader:
        script.loss(inputs, labels).backward()
        torch.nn.functional.cross_entropy(other(inputs), labels).backward()
        script.optimizer.step()
        its_optimizer.step()

    steps = script.steps(folder)
    (segment,) = of_kind(script.lines, "segment")
    assert len(segment["tensors"]) == 6
    assert len(steps) == NUM_BATCHES - 1
    assert {len(step["blocked"]) for step in steps} == {2}
    assert all(at > 0 for step in steps for at in step["ready"])


def test_a_wrapper_around_the_optimizer_is_not_a_second_one(script, folder):
    # As Accelerate's: it never calls the constructor of its base.
    class Around(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner
            self.param_groups = inner.param_groups

        def step(self, closure=None):
            return self.inner.step(closure)

    script.wrap()
    wrapper = Around(script.optimizer)
    for inputs, labels in script.loader:
        script.loss(inputs, labels).backward()
        wrapper.step()

    assert len(script.steps(folder)) == NUM_BATCHES - 1
    (segment,) = of_kind(script.lines, "segment")
    assert len(segment["tensors"]) == 4


def test_an_update_of_something_else_begins_nothing(script, folder):
    script.wrap()
    weight = torch.zeros(2, requires_grad=True)
    aside = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    aside.step()

    assert not script.recorder.has_begun
    assert not (folder / "rank-0.jsonl").exists()


def test_a_loop_that_reduces_by_hand_is_recorded_from_its_first_update_on(script, folder):
    script.model = script.net
    optimizer = torch.optim.SGD(script.net.parameters(), lr=0.1)
    for inputs, labels in script.loader:
        optimizer.zero_grad()
        script.loss(inputs, labels).backward()
        for parameter in script.net.parameters():
            distributed.all_reduce(parameter.grad)
        optimizer.step()

    steps = script.steps(folder)
    assert script.engine() == "collectives"
    assert len(steps) == NUM_BATCHES - 1
    for step in steps:
        assert [kind for kind, _, _ in step["waits"]] == 4 * ["user"]
        assert {num_ranks for _, _, num_ranks in step["waits"]} == {1}
        assert all(submitted >= 0 for _, submitted, _ in step["waits"])
        assert all(phase_ns(step, one) > 0 for one in ("data", "forward", "backward", "optimizer"))


def test_an_asynchronous_reduction_waits_for_its_work(script, folder):
    script.wrap()
    for inputs, labels in script.loader:
        loss = script.loss(inputs, labels)
        work = distributed.all_reduce(loss.detach().clone(), async_op=True)
        loss.backward()
        script.optimizer.step()
        work.wait()

    for step in script.steps(folder)[1:]:
        # The one of the step before is waited for after its update, which ends the step.
        assert sorted(kind for kind, _, _ in step["waits"]) == ["grad_reduce", "user"]
        (user,) = [wait for wait in step["waits"] if wait[0] == "user"]
        assert user[2] == 1
        assert user[1] < 0


def test_a_sharded_model_is_recorded_from_its_first_update_on(script, folder):
    from torch.distributed.fsdp import fully_shard

    script.model = script.net
    for module in script.net:
        fully_shard(module)
    fully_shard(script.net)
    script.optimizer = torch.optim.SGD(script.net.parameters(), lr=0.1)
    script.train()

    steps = script.steps(folder)
    assert script.engine() == "fsdp"
    (segment,) = of_kind(script.lines, "segment")
    # One rank gathers and reduces nothing.
    assert [tensor["name"] for tensor in segment["tensors"]] == [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
    ]
    assert len(steps) == NUM_BATCHES - 1
    for step in steps:
        assert step["blocked"] == []
        assert all(phase_ns(step, one) > 0 for one in ("data", "forward", "backward", "optimizer"))
