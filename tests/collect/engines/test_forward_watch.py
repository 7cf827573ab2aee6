import copy
import io
import pickle
import sys
import threading
import types
from contextlib import nullcontext

import cloudpickle
import pytest
import torch

from hvdprof.collect.engines.forward_watch import ForwardWatch, first_length

pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.second(self.first(inputs))


class Holder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model


def noting(seen):
    def begin(inputs):
        seen.append(first_length(inputs))
        return nullcontext()

    return begin


def watching(model, seen):
    def evaluates():
        seen.append("evaluation")

    return ForwardWatch(torch, model.parameters(), noting(seen), evaluates, seen.append)


@pytest.fixture
def seen():
    return []


@pytest.fixture
def model():
    return Net()


@pytest.fixture
def watch(model, seen):
    watch = watching(model, seen)
    yield watch
    watch.remove()


@pytest.mark.parametrize("settled", [False, True])
def test_only_the_outermost_pass_counts(watch, model, seen, settled):
    if settled:
        model(torch.zeros(1, 4))
        watch.settle()
        del seen[:]

    model(torch.zeros(8, 4))

    assert seen == [8]


@pytest.mark.parametrize("settled", [False, True])
def test_evaluation_is_distinguished(watch, model, seen, settled):
    if settled:
        model(torch.zeros(1, 4))
        watch.settle()
        del seen[:]
    with torch.no_grad():
        model(torch.zeros(8, 4))
    model.eval()
    model(torch.zeros(8, 4))

    assert seen == ["evaluation", "evaluation"]


class Wrapped(torch.nn.Module):
    """Has the attributes by which DDP is known."""

    reducer, process_group = object(), object()

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, inputs):
        return self.module(inputs)


def test_the_model_inside_ddp_says_whether_it_trains(model, seen):
    # As under Lightning, which sets the mode of the model alone.
    wrapped = Wrapped(model).eval()
    watch = watching(wrapped, seen)
    for mode in (True, False):
        model.train(mode)
        wrapped(torch.zeros(8, 4))
    watch.remove()

    assert seen == [8, "evaluation"]


def settled_in_ddp(model, seen):
    wrapped = Wrapped(model)
    watch = watching(wrapped, seen)
    wrapped(torch.zeros(1, 4))
    watch.settle()
    del seen[:]
    return wrapped, watch


@pytest.mark.parametrize("how", ["eval", "no_grad"])
def test_evaluation_with_the_model_inside_ddp_is_seen_after_settling(model, seen, how):
    # As a rank does that evaluates while the others wait: DDP itself may communicate.
    wrapped, watch = settled_in_ddp(model, seen)
    wrapped.train(how != "eval")
    with torch.set_grad_enabled(how != "no_grad"):
        wrapped.module(torch.zeros(8, 4))
    watch.remove()

    assert seen == ["evaluation"]


def test_the_model_inside_ddp_trains_in_passes_of_ddp_alone_after_settling(model, seen):
    # Backward computes checkpointed modules once more, which may be of the class of the model.
    wrapped, watch = settled_in_ddp(model, seen)
    wrapped(torch.zeros(8, 4))
    wrapped.module(torch.zeros(8, 4))
    watch.remove()

    assert seen == [8]


class Features(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.head(self.backbone(inputs))


@pytest.mark.parametrize("in_ddp", [False, True])
def test_evaluation_with_a_part_of_the_model_is_seen_after_settling(seen, in_ddp):
    model = Features()
    called = Wrapped(model) if in_ddp else model
    watch = watching(called, seen)
    called(torch.zeros(1, 4))
    watch.settle()
    del seen[:]

    model.eval()
    model.backbone(torch.zeros(8, 4))
    called(torch.zeros(8, 4))
    model.train()
    # Backward computes checkpointed parts once more, and a whole pass holds its parts.
    model.backbone(torch.zeros(8, 4))
    called(torch.zeros(8, 4))
    watch.remove()

    assert seen == ["evaluation", "evaluation", 8]
    assert "__call__" not in vars(torch.nn.Linear)


def test_parts_without_parts_of_their_own_are_not_watched_after_settling(watch, model):
    model(torch.zeros(1, 4))
    watch.settle()

    assert "__call__" not in vars(torch.nn.Linear)


def test_models_that_are_not_trained_here_are_no_ones_business(watch, seen):
    Net()(torch.zeros(8, 4))

    assert seen == []


def test_after_settling_only_outermost_classes_are_hooked(watch, model):
    assert type(model.first).__call__ is not torch.nn.Module.__call__
    model(torch.zeros(1, 4))
    watch.settle()

    assert type(model.first).__call__ is torch.nn.Module.__call__
    assert Net.__call__ is not torch.nn.Module.__call__


def test_a_container_that_is_never_called_hides_nothing(model, seen):
    holder = Holder(model)
    watch = ForwardWatch(torch, model.parameters(), noting(seen), seen.clear, seen.append)
    holder.model(torch.zeros(3, 4))
    watch.remove()

    assert seen == [3]


def test_inputs_may_be_named(watch, model, seen):
    model(inputs=torch.zeros(5, 4))

    assert seen == [5]


def test_other_threads_are_no_ones_business(watch, model, seen):
    thread = threading.Thread(target=model, args=(torch.zeros(5, 4),))
    thread.start()
    thread.join()

    assert seen == []


def test_copies_and_saved_files_know_nothing_of_it(watch, model, seen):
    model(torch.zeros(1, 4))
    watch.settle()
    file = io.BytesIO()
    torch.save(copy.deepcopy(model), file)

    assert b"hvdprof" not in file.getvalue().replace(Net.__module__.encode(), b"")


def test_tracers_still_see_submodules_as_such(watch, model):
    operations = [node.op for node in torch.fx.symbolic_trace(model).graph.nodes]

    assert operations == ["placeholder", "call_module", "call_module", "output"]


@pytest.mark.parametrize("how", ["before", "after", "in place"])
def test_compiled_models_are_seen_and_compiled_once(model, seen, how):
    compiled = torch.compile(model, backend="eager", fullgraph=True) if how == "before" else model
    watch = watching(model, seen)
    if how == "after":
        compiled = torch.compile(model, backend="eager", fullgraph=True)
    elif how == "in place":
        model.compile(backend="eager", fullgraph=True)
    try:
        compiled(torch.zeros(8, 4))
        watch.look_for_modules()
        del seen[:]
        compiled(torch.zeros(8, 4))
        with torch._dynamo.config.patch(error_on_recompile=True):
            watch.settle()
            compiled(torch.zeros(8, 4))
    finally:
        watch.remove()
        torch._dynamo.reset()

    assert seen == [8, 8]


def test_an_exception_in_forward_leaves_nothing_open(watch, model, seen):
    with pytest.raises(RuntimeError):
        model(torch.zeros(8, 5))
    model(torch.zeros(2, 4))

    assert seen == [8, 2]


def test_all_calls_can_be_restored(watch, model, seen):
    model(torch.zeros(1, 4))
    watch.settle()
    watch.remove()
    del seen[:]
    model(torch.zeros(2, 4))

    assert seen == []
    assert Net.__call__ is torch.nn.Module.__call__


@pytest.mark.parametrize(
    ("batch", "length"),
    [
        (torch.zeros(6, 3), 6),
        ([torch.zeros(6, 3), torch.zeros(2)], 6),
        ({"ids": torch.zeros(5), "mask": torch.zeros(5)}, 5),
        ((["a", "b"], torch.zeros(2)), 2),
        (torch.tensor(1.0), 0),
        ("text", 0),
        (None, 0),
    ],
)
def test_the_length_of_a_batch(batch, length):
    assert first_length(batch) == length


def test_what_fails_in_the_watch_is_reported_and_the_model_computes(model, seen):
    def begin(inputs):
        raise ValueError("no length today")

    watch = ForwardWatch(torch, model.parameters(), begin, seen.clear, seen.append)
    try:
        assert model(torch.zeros(8, 4)).shape == (8, 2)
    finally:
        watch.remove()
    assert [str(error) for error in seen] == ["no length today"]


def test_what_the_model_raises_is_its_own(watch, model, seen):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model(torch.zeros(8, 5))
    assert seen == [8]
    model(torch.zeros(2, 4))
    assert seen == [8, 2]


SCRIPT = """
import torch

class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.layer(inputs)

class Twice(Own):
    def __call__(self, inputs):
        return 2 * super().__call__(inputs)
"""


@pytest.mark.parametrize("name", ["Own", "Twice"])
def test_a_model_of_the_script_itself_goes_to_other_processes_without_the_recorder(
    seen, name, monkeypatch
):
    # Horovod's broadcast_object pickles so; classes of `__main__` go along as a whole.
    script = types.ModuleType("script_of_a_user")
    exec(SCRIPT, vars(script))
    model = vars(script)[name]()
    for kind in (script.Own, script.Twice):
        kind.__module__ = "__main__"
    expected = model(torch.ones(1, 4))
    watch = watching(model, seen)
    try:
        model(torch.zeros(3, 4))
        pickled = cloudpickle.dumps(model)
    finally:
        watch.remove()

    # Loaded where there is no hvdprof.
    for module in [one for one in sys.modules if one.split(".")[0] == "hvdprof"]:
        monkeypatch.setitem(sys.modules, module, None)
    loaded = pickle.loads(pickled)
    assert torch.equal(loaded(torch.ones(1, 4)), expected)
    assert seen == [3]


def test_a_hook_set_by_other_code_meanwhile_stays(model, seen):
    watch = watching(model, seen)
    replaced = Net.__call__

    def later(module, *args):
        return replaced(module, *args)

    try:
        Net.__call__ = later
        watch.remove()
        assert vars(Net)["__call__"] is later
        assert model(torch.zeros(1, 4)).shape == (1, 2)
    finally:
        del Net.__call__
    assert seen == []
