"""Presets: the defaults of `hvdprof bench`.

Tested in ``tests/launch/plan/test_bench_settings.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The defaults that a preset stands for.

    ``repeats`` is the most; a run stops where ``precision`` (half of the 95 % interval of every
    efficiency) is reached or ``budget`` is used. ``sizes`` is None for 1, 2, 4 ... up to the cores
    (or GPUs) of the hosts; ``image_size`` is None for each model's default on GPUs and
    ``SMALL_IMAGE_SIZE`` on CPUs, where a step with the default size takes minutes.
    """

    summary: str
    sizes: tuple[int, ...] | None
    models: tuple[str, ...]
    compressions: tuple[str, ...]
    reductions: tuple[str, ...]
    image_size: int | None
    num_warmup_batches: int
    max_seconds: float
    repeats: int
    precision: str
    budget: str


SMALL_IMAGE_SIZE = 64

PRESETS: dict[str, Preset] = {
    "quick": Preset(
        summary="mnist and resnet18 at 32x32 on 1 and 2 ranks; about 75 seconds on 2 cores",
        sizes=(1, 2),
        models=("mnist", "resnet18"),
        compressions=("none",),
        reductions=("average",),
        image_size=32,
        num_warmup_batches=5,
        max_seconds=1.5,
        repeats=6,
        precision="5%",
        budget="70s",
    ),
    "standard": Preset(
        summary="mnist, resnet50 and vgg16 at every power of two of ranks; about 15 minutes",
        sizes=None,
        models=("mnist", "resnet50", "vgg16"),
        compressions=("none",),
        reductions=("average",),
        image_size=None,
        num_warmup_batches=10,
        max_seconds=10.0,
        repeats=10,
        precision="3%",
        budget="15m",
    ),
    "full": Preset(
        summary="all models, fp16 and Adasum included; about 4 hours",
        sizes=None,
        models=("mnist", "resnet18", "resnet50", "resnet101", "vgg16", "inception_v3"),
        compressions=("none", "fp16"),
        reductions=("average", "adasum"),
        image_size=None,
        num_warmup_batches=10,
        max_seconds=60.0,
        repeats=10,
        precision="3%",
        budget="4h",
    ),
}


def preset_values(read: Callable[[Preset], object]) -> str:
    """The defaults by preset, as help states them: "quick 3; standard and full 5"."""
    names: dict[str, list[str]] = {}
    for name, preset in PRESETS.items():
        names.setdefault(f"{read(preset)}", []).append(name)
    return "; ".join(f"{' and '.join(presets)} {value}" for value, presets in names.items())
