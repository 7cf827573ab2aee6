"""Gradients of models that never run: what real backward passes produce must be the same."""

import itertools
import sys

import pytest
import torch

from hvdprof.bench_models.model_gradients import model_gradients
from hvdprof.bench_models.registry import MODELS, model_named
from hvdprof.errors import UsageError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("name", "megabytes"), [("vgg16", 553.4), ("resnet101", 178.2), ("inception_v3", 95.3)]
)
def test_the_sizes_are_those_of_the_published_models(name, megabytes):
    gradients = model_gradients(name)
    assert sum(gradients.size_bytes) / 1e6 == pytest.approx(megabytes, abs=0.05)
    assert sum(gradients.size_bytes) == 4 * model_named(name).num_parameters
    assert set(gradients.dtypes) == {"float32"}
    assert gradients.is_counted


@pytest.mark.parametrize("name", ["mnist", "resnet18"])
def test_the_order_is_that_of_a_real_backward(name):
    entry = model_named(name)
    model = entry.build()
    order = []
    for own, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _one, own=own: order.append(own))
    model(
        torch.zeros(
            2, entry.in_channels, 32 if name == "resnet18" else 28, 32 - 4 * (name == "mnist")
        )
    ).sum().backward()
    expected = model_gradients(name).names
    # Weight and bias of a layer are ready together, in either order; so are parallel branches.
    layer = [one.rpartition(".")[0] for one in order]
    layers = [one for one, _ in itertools.groupby(layer)]
    wanted = [one for one, _ in itertools.groupby(one.rpartition(".")[0] for one in expected)]
    assert sorted(order) == sorted(expected)
    moved = sum(a != b for a, b in zip(layers, wanted, strict=True))
    assert moved <= 0.15 * len(layers)


def test_a_scale_model_sends_its_part():
    whole, part = model_gradients("vgg16"), model_gradients("emulate:vgg16:128@0.2")
    assert part.names == whole.names
    assert sum(part.size_bytes) == pytest.approx(sum(whole.size_bytes) / 128, rel=0.01)
    assert part.costs == whole.costs


def test_every_reference_model_is_known():
    for model in MODELS:
        assert sum(model_gradients(model.name).size_bytes) == 4 * model.num_parameters


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "model_of_a_user"

    def write(text):
        (tmp_path / f"{name}.py").write_text("import torch\nfrom torch import nn\n" + text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    yield write
    sys.modules.pop(name, None)


TWO = "def two():\n    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"


def test_a_model_of_the_user_without_inputs_has_the_declared_order(module):
    gradients = model_gradients(module(TWO) + ":two")
    assert gradients.names == ("2.bias", "2.weight", "0.bias", "0.weight")
    assert gradients.size_bytes == (8, 64, 32, 128)
    assert gradients.costs == (18, 0, 40, 0)
    assert not gradients.is_counted


def test_with_inputs_layers_are_counted_in_the_order_of_their_calls(module):
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(3, 3)
        self.last = nn.Linear(6, 2, bias=False)
        self.norm = nn.LayerNorm(6)
        self.conv = nn.Conv1d(4, 6, 3)
        self.frozen = nn.Linear(6, 6)
        self.frozen.requires_grad_(False)
    def forward(self, x):
        x = self.norm(self.conv(x).transpose(1, 2))
        return self.last(self.frozen(x))
def net():
    return Net().half(), (torch.zeros(5, 4, 10, dtype=torch.float16),)
"""
    gradients = model_gradients(module(text) + ":net")
    assert gradients.names == (
        *("last.weight", "norm.bias", "norm.weight", "conv.bias", "conv.weight"),
        *("unused.bias", "unused.weight"),
    )
    # 8 places: last 6*2*8, norm 6*8 behind the frozen layer's 6*6*8, conv 4*6*3*8.
    assert gradients.costs == (96, 288 + 48, 0, 576, 0, 0, 0)
    assert gradients.size_bytes == (24, 12, 12, 12, 144, 6, 18)
    assert set(gradients.dtypes) == {"float16"}


def test_a_shared_weight_is_ready_after_its_last_use_in_backward(module):
    text = """
def tied():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    model[2].weight = model[0].weight
    return model, (torch.zeros(1, 4),)
"""
    gradients = model_gradients(module(text) + ":tied")
    assert gradients.names == ("1.bias", "1.weight", "0.weight")
    assert gradients.costs == (32, 0, 16)


def test_attention_is_counted_once_per_place(module):
    text = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
    def forward(self, x):
        return self.attention(x, x, x)[0]
def block():
    return Block(), (torch.zeros(2, 5, 8),)
"""
    gradients = model_gradients(module(text) + ":block")
    assert sum(gradients.costs) >= 3 * 8 * 8 * 5
    assert "attention.in_proj_weight" in gradients.names


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alexnet", "no reference model"),
        ("no_such_module:f", "cannot be imported"),
        ("model_of_a_user:missing", "has no function 'missing'"),
        ("model_of_a_user:number", "returns int"),
        ("model_of_a_user:needs", "builds no model"),
        ("model_of_a_user:reads", "cannot be called on torch's meta device"),
    ],
)
def test_what_cannot_be_described_is_said(module, name, message):
    module(
        "def number():\n    return 1\n"
        "def needs(size):\n    return nn.Linear(size, 1)\n"
        "class Reads(nn.Linear):\n"
        "    def forward(self, x):\n        return super().forward(x) if x.sum() > 0 else x\n"
        "def reads():\n    return Reads(2, 2), (torch.zeros(1, 2),)\n"
    )
    with pytest.raises(UsageError, match=message):
        model_gradients(name)
