"""Settings and options of a benchmark in which a test states only what matters."""

from dataclasses import fields, replace
from typing import Any

from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.bench_settings import KnownModel, Machine
from hvdprof.launch.plan.hosts import Capacity
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.plan.run_options import FunctionOptions, RunOptions
from hvdprof.launch.plan.settings import ModelSettings, Resolved, Settings
from hvdprof.rundir.manifest import Manifest

MNIST = ModelSettings(name="mnist", batch_size=64, image_size=28)
RESNET = ModelSettings(name="resnet18", batch_size=16, image_size=32)

KNOWN_MODELS = {
    "mnist": KnownModel(64, 28, 28, fixed_image_size=True),
    "resnet18": KnownModel(16, 224, 32, fixed_image_size=False),
    "inception_v3": KnownModel(8, 299, 75, fixed_image_size=False),
}
FOUR_CORES = Machine(controller="mpi", device="cpu", num_cores=4, num_gpus=0)
LOCAL_FOUR_CORES = Capacity({"localhost": 4}, {"localhost": 0}, nccl=False)

_RESOLVED = Resolved(
    sizes=(1, 2),
    models=(MNIST,),
    compressions=("none",),
    reductions=("average",),
    num_warmup_batches=2,
    max_seconds=None,
    repeats=1,
    controller="mpi",
    device="cpu",
    hosts=None,
    num_threads=1,
    data="synthetic",
)
_DECIDED = {one.name: getattr(_RESOLVED, one.name) for one in fields(Resolved)}
_OPTIONS = BenchOptions(preset="quick")


def bench_settings(**changes: Any) -> Settings:
    """mnist, untoggled, on 1 and 2 ranks under MPI, with the given changes.

    A change of what is decided is none of the option of its name. With a ``script`` the other
    changes are options of ``hvdprof run``, or those of a function.
    """
    decided = {name: changes.pop(name) for name in _DECIDED if name in changes}
    script = decided.get("script")
    of_script = RunOptions if script is None or not script.is_function else FunctionOptions
    kind = BenchOptions if script is None else of_script
    options = kind(**{"num_steps": 10, "timeout_s": 30.0} | changes)
    return Settings(**_DECIDED | decided, options=options)


def bench_options(**changes: Any) -> BenchOptions:
    """The quick preset with nothing else given, and the given changes."""
    return replace(_OPTIONS, **changes)


def recorded(settings: Settings) -> Manifest:
    """A manifest with nothing but these settings."""
    manifest = Manifest.of_files("run")
    manifest.settings, manifest.options = settings.record(), record_of(settings.options)
    return manifest
