"""The reference models; importable without torch, which is imported when a model is built."""

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from hvdprof.errors import UsageError
from hvdprof.rundir.plan import ModelName

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchModel:
    """A reference model and how it is trained.

    ``builder`` is ``module:function``; the function takes the number of classes. ``image_size``
    is the edge in pixels that the reference uses, and models accept edges from
    ``min_image_size`` to ``max_image_size`` (None: no limit). ``num_parameters`` is the published
    count. ``log_probabilities`` says that the output is already a log-softmax. With
    ``emulated_step_s`` the model waits that long for forward and backward instead of computing,
    and its gradients have 1 / ``divisor`` of their elements.
    """

    name: str
    builder: str
    num_classes: int
    in_channels: int
    image_size: int
    min_image_size: int
    max_image_size: int | None
    batch_size: int
    num_parameters: int
    learning_rate: float
    momentum: float
    log_probabilities: bool
    reference: str
    emulated_step_s: float | None = None
    divisor: int = 1

    def build(self) -> "nn.Module":
        """The model with fresh weights from torch's global generator."""
        if self.emulated_step_s is None:
            return self.build_reference()
        emulated = importlib.import_module("hvdprof.bench_models.emulated")
        shape = (1, self.in_channels, self.image_size, self.image_size)
        costs = emulated.reference_costs(self.build_reference, shape)
        model = emulated.shrunk(self.build_reference, self.divisor)
        model = emulated.emulate(model, costs, self.num_classes, self.emulated_step_s)
        return cast("nn.Module", model)

    def build_reference(self) -> "nn.Module":
        """The model that computes, at full size, also where this entry is emulated."""
        module_name, function_name = self.builder.split(":")
        function = getattr(importlib.import_module(module_name), function_name)
        return cast("nn.Module", function(self.num_classes))


def _imagenet_model(
    name: str, builder: str, *, num_parameters: int, reference: str, edges: tuple[int, int]
) -> BenchModel:
    image_size, min_image_size = edges
    return BenchModel(
        name=name,
        builder=builder,
        num_classes=1000,
        in_channels=3,
        image_size=image_size,
        min_image_size=min_image_size,
        max_image_size=None,
        batch_size=16,
        num_parameters=num_parameters,
        # Horovod's own ImageNet example: 0.0125 a rank with momentum 0.9.
        learning_rate=0.0125,
        momentum=0.9,
        log_probabilities=False,
        reference=reference,
    )


_RESNET = "He et al., Deep Residual Learning for Image Recognition, arXiv:1512.03385"

MODELS: tuple[BenchModel, ...] = (
    BenchModel(
        name="mnist",
        builder="hvdprof.bench_models.mnist:mnist",
        num_classes=10,
        in_channels=1,
        image_size=28,
        min_image_size=28,
        max_image_size=31,
        batch_size=64,
        num_parameters=21_840,
        learning_rate=0.01,
        momentum=0.5,
        log_probabilities=True,
        reference="The network of Horovod's examples/pytorch/pytorch_mnist.py",
    ),
    _imagenet_model(
        "resnet18",
        "hvdprof.bench_models.resnet:resnet18",
        num_parameters=11_689_512,
        reference=_RESNET,
        edges=(224, 32),
    ),
    _imagenet_model(
        "resnet50",
        "hvdprof.bench_models.resnet:resnet50",
        num_parameters=25_557_032,
        reference=_RESNET,
        edges=(224, 32),
    ),
    _imagenet_model(
        "resnet101",
        "hvdprof.bench_models.resnet:resnet101",
        num_parameters=44_549_160,
        reference=_RESNET,
        edges=(224, 32),
    ),
    _imagenet_model(
        "vgg16",
        "hvdprof.bench_models.vgg:vgg16",
        num_parameters=138_357_544,
        reference="Simonyan, Zisserman, Very Deep Convolutional Networks, arXiv:1409.1556",
        edges=(224, 32),
    ),
    _imagenet_model(
        "inception_v3",
        "hvdprof.bench_models.inception:inception_v3",
        num_parameters=23_834_568,
        reference="Szegedy et al., Rethinking the Inception Architecture, arXiv:1512.00567",
        edges=(299, 75),
    ),
)


def model_named(name: str) -> BenchModel:
    """The reference model of that name, emulated where the name says so.

    Such a name is ``emulate:<model>@<seconds>`` or ``emulate:<model>:<divisor>@<seconds>``.

    Raises:
        UsageError: There is none.
    """
    wanted = ModelName.parse(name)
    for model in MODELS:
        if model.name == wanted.reference:
            return replace(
                model, name=name, emulated_step_s=wanted.emulated_step_s, divisor=wanted.divisor
            )
    raise UsageError(
        f"There is no reference model {name!r}.",
        hint=f"Known are {', '.join(model.name for model in MODELS)}.",
    )
