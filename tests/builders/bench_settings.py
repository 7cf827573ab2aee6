"""Settings and options of a benchmark in which a test states only what matters."""

from dataclasses import replace
from typing import Any

from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.bench_settings import KnownModel, Machine
from hvdprof.launch.plan.capacity import Capacity
from hvdprof.launch.plan.settings import ModelSettings, Settings

MNIST = ModelSettings(name="mnist", batch_size=64, image_size=28)
RESNET = ModelSettings(name="resnet18", batch_size=16, image_size=32)

KNOWN_MODELS = {
    "mnist": KnownModel(64, 28, 28, fixed_image_size=True),
    "resnet18": KnownModel(16, 224, 32, fixed_image_size=False),
    "inception_v3": KnownModel(8, 299, 75, fixed_image_size=False),
}
FOUR_CORES = Machine(controller="mpi", device="cpu", num_cores=4, num_gpus=0)
LOCAL_FOUR_CORES = Capacity({"localhost": 4}, {"localhost": 0}, nccl=False)

_SETTINGS = Settings(
    sizes=(1, 2),
    models=(MNIST,),
    compressions=("none",),
    reductions=("average",),
    scaling="weak",
    num_warmup_batches=2,
    num_steps=10,
    max_seconds=None,
    repeats=1,
    attribution=False,
    controller="mpi",
    device="cpu",
    hosts=None,
    num_threads=1,
    fusion_threshold_mb=None,
    cycle_time_ms=None,
    cache_capacity=None,
    data="synthetic",
    data_dir=None,
    seed=42,
    timeout_s=30.0,
)
_OPTIONS = BenchOptions(preset="quick")


def bench_settings(**changes: Any) -> Settings:
    """mnist, untoggled, on 1 and 2 ranks under MPI, with the given changes."""
    return replace(_SETTINGS, **changes)


def bench_options(**changes: Any) -> BenchOptions:
    """The quick preset with nothing else given, and the given changes."""
    return replace(_OPTIONS, **changes)
