import subprocess
import sys

import pytest

from hvdprof.bench_models.registry import MODELS, model_named
from hvdprof.errors import UsageError

PUBLISHED = {
    "mnist": 21_840,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "vgg16": 138_357_544,
    "inception_v3": 23_834_568,
}


def test_names():
    assert [model.name for model in MODELS] == list(PUBLISHED)
    assert model_named("vgg16").num_parameters == 138_357_544


def test_unknown_model_is_refused_with_the_known_names():
    with pytest.raises(UsageError, match="'alexnet'") as caught:
        model_named("alexnet")
    assert "resnet50" in caught.value.hint


@pytest.mark.torch
@pytest.mark.parametrize("name", PUBLISHED)
def test_number_of_parameters_is_the_published_one(name):
    # On torch's meta device nothing is allocated or initialised.
    import torch

    with torch.device("meta"):
        model = model_named(name).build()
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == PUBLISHED[name] == model_named(name).num_parameters


@pytest.mark.torch
@pytest.mark.parametrize("name", ["mnist", "resnet18", "resnet50", "inception_v3"])
def test_model_trains_at_its_smallest_image(name):
    import torch

    entry = model_named(name)
    torch.manual_seed(0)
    model = entry.build()
    edge = entry.min_image_size
    output = model(torch.randn(2, entry.in_channels, edge, edge))
    assert output.shape == (2, entry.num_classes)
    output.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(one is not None and bool(one.isfinite().all()) for one in gradients)


@pytest.mark.torch
def test_mnist_takes_no_larger_image_than_it_says():
    import torch

    entry = model_named("mnist")
    model = entry.build()
    assert model(torch.zeros(1, 1, entry.max_image_size, entry.max_image_size)).shape == (1, 10)
    with pytest.raises(RuntimeError):
        model(torch.zeros(1, 1, entry.max_image_size + 1, entry.max_image_size + 1))


@pytest.mark.torch
def test_mnist_gives_log_probabilities():
    import torch

    output = model_named("mnist").build()(torch.randn(3, 1, 28, 28))
    torch.testing.assert_close(output.exp().sum(dim=1), torch.ones(3))


@pytest.mark.torch
def test_initialisation_is_that_of_the_reference():
    import torch

    torch.manual_seed(0)
    model = model_named("resnet18").build()
    # He initialisation by fan-out: variance 2 / (64 * 7 * 7) in the first convolution.
    assert float(model.conv1.weight.detach().std()) == pytest.approx(
        (2 / (64 * 49)) ** 0.5, rel=0.03
    )


def test_registry_can_be_read_without_torch():
    script = (
        "import sys; sys.modules['torch'] = None; import hvdprof.bench_models.registry as r; "
        "print(sum(m.batch_size for m in r.MODELS))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(answer.stdout) > 0
