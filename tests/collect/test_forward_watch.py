from contextlib import nullcontext

import pytest
import torch

from hvdprof.collect.forward_watch import ForwardWatch, first_length


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.second(self.first(inputs))


@pytest.fixture
def seen():
    return []


@pytest.fixture
def model():
    return Net()


@pytest.fixture
def watch(model, seen):
    def begin(inputs):
        seen.append(first_length(inputs))
        return nullcontext()

    watch = ForwardWatch(torch, model.parameters(), begin, lambda: seen.append("evaluation"))
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
def test_evaluation_is_told_apart(watch, model, seen, settled):
    if settled:
        model(torch.zeros(1, 4))
        watch.settle()
        del seen[:]
    with torch.no_grad():
        model(torch.zeros(8, 4))
    model.eval()
    model(torch.zeros(8, 4))

    assert seen == ["evaluation", "evaluation"]


def test_models_that_are_not_trained_here_are_no_ones_business(watch, seen):
    Net()(torch.zeros(8, 4))

    assert seen == []


def test_after_settling_other_modules_carry_no_hook(watch, model, seen):
    model(torch.zeros(1, 4))
    watch.settle()

    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not model.first._forward_pre_hooks
    assert model._forward_pre_hooks


def test_an_exception_in_forward_leaves_nothing_open(watch, model, seen):
    with pytest.raises(RuntimeError):
        model(torch.zeros(8, 5))
    model(torch.zeros(2, 4))

    assert seen == [8, 2]


def test_all_hooks_can_be_taken_off(watch, model, seen):
    model(torch.zeros(1, 4))
    watch.settle()
    watch.remove()
    del seen[:]
    model(torch.zeros(2, 4))

    assert seen == []
    assert not model._forward_pre_hooks


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
