"""Models that wait instead of computing."""

import time

import pytest
import torch

from hvdprof.bench_models.emulated import reference_costs
from hvdprof.bench_models.registry import model_named
from hvdprof.errors import UsageError

pytestmark = pytest.mark.torch


def test_costs_are_the_published_multiplications():
    entry = model_named("resnet50")
    costs = reference_costs(entry.build, (1, 3, 224, 224))
    # He et al. count 3.8 billion for their variant; with the stride in the 3x3 layers it is 4.1.
    assert 4.0e9 < sum(costs.values()) < 4.2e9
    assert next(iter(costs)) == "conv1"
    assert list(costs)[-1] == "fc"


@pytest.mark.parametrize("name", ["mnist", "resnet18", "inception_v3"])
def test_names_and_every_gradient_are_those_of_the_model(name):
    entry = model_named(f"emulate:{name}@0.001")
    model = entry.build()
    real = model_named(name).build()
    shapes = {name: one.shape for name, one in real.named_parameters()}
    assert {name: one.shape for name, one in model.named_parameters()} == shapes
    output = model(torch.zeros(2, entry.in_channels, 75, 75))
    assert output.shape == (2, entry.num_classes)
    output.sum().backward()
    assert all(one.grad is not None and not one.grad.any() for one in model.parameters())


@pytest.mark.parametrize("name", ["mnist", "inception_v3"])
def test_a_scale_model_has_every_gradient_at_its_part_of_the_size(name):
    model = model_named(f"emulate:{name}:64@0.001").build()
    whole = dict(model_named(name).build().named_parameters())
    lengths = {one: parameter.numel() for one, parameter in model.named_parameters()}
    assert lengths == {one: -(-parameter.numel() // 64) for one, parameter in whole.items()}
    assert list(lengths) == list(whole)
    model(torch.zeros(2, 3, 75, 75)).sum().backward()
    assert all(one.grad is not None and one.grad.shape == one.shape for one in model.parameters())
    # Horovod broadcasts the whole state, which must not be on the meta device.
    assert {one.device.type for one in model.state_dict().values()} == {"cpu"}


@pytest.mark.timing
def test_gradients_become_ready_at_their_layers_shares():
    model = model_named("emulate:mnist@0.3").build()
    costs = reference_costs(model_named("mnist").build, (1, 1, 28, 28))
    ready = {}
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda _one, name=name: ready.update({name: time.perf_counter()})
        )
    begin_s = time.perf_counter()
    output = model(torch.zeros(1, 1, 28, 28))
    forward_s = time.perf_counter() - begin_s
    begin_s = time.perf_counter()
    output.sum().backward()
    backward_s = time.perf_counter() - begin_s
    assert forward_s == pytest.approx(0.1, abs=0.02)
    assert backward_s == pytest.approx(0.2, abs=0.02)
    left = sum(costs.values())
    for layer, cost in costs.items():
        # The gradients of a layer are ready when it and all later ones have waited.
        expected_s = 0.2 * left / sum(costs.values())
        assert ready[f"{layer}.weight"] - begin_s == pytest.approx(expected_s, abs=0.02)
        left -= cost


@pytest.mark.parametrize("name", ["emulate:mnist", "emulate:mnist@0", "emulate:mnist@nan"])
def test_a_length_is_needed(name):
    with pytest.raises(UsageError, match="seconds of a step"):
        model_named(name)


def test_the_model_itself_must_be_known():
    with pytest.raises(UsageError, match="no reference model"):
        model_named("emulate:alexnet@0.2")
