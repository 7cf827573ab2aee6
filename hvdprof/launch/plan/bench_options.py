"""The options of ``hvdprof bench``: models, toggles, Horovod's settings, and their presets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvdprof.bench_models.registry import MODELS
from hvdprof.launch.plan.options import (
    DESIGN,
    HOROVOD,
    MEASUREMENT,
    OUTPUT,
    PRICE_HELP,
    RANKS,
    Amount,
    MeasureOptions,
    option,
)
from hvdprof.launch.plan.preflight import Sizes
from hvdprof.launch.plan.run_options import ENV_HELP, NET_HELP
from hvdprof.rundir.plan import DATA_PARALLEL_ENGINE, DDP_ENGINE, HOROVOD_ENGINE, TF_ENGINES

Names = str | Sequence[str]
"""Names: ``"none,fp16"`` or ``("none", "fp16")``."""

NO_COMPRESSION, FP16 = "none", "fp16"
AVERAGE, ADASUM = "average", "adasum"
ENGINES = (HOROVOD_ENGINE, DDP_ENGINE, DATA_PARALLEL_ENGINE, *TF_ENGINES)
COMPRESSIONS = (NO_COMPRESSION, FP16)
REDUCTIONS = (AVERAGE, ADASUM)
SCALINGS = ("weak", "strong")
DATA_SOURCES = ("synthetic", "digits")
MACHINE_SIZES = "powers of two up to the cores or GPUs"


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


def _sizes(preset: Preset) -> str:
    return MACHINE_SIZES if preset.sizes is None else ",".join(map(str, preset.sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions(MeasureOptions):
    """The options of ``hvdprof bench``; what is None is decided by the preset or the machine."""

    models: Names | None = option(
        None,
        f"Any of {', '.join(model.name for model in MODELS)}; those of the preset when not given.",
        "--models",
        panel=DESIGN,
    )
    np: Sizes | None = option(
        None,
        f"Number of ranks, or several: 1,2,4,8. By preset: {preset_values(_sizes)}.",
        "--np",
        "-np",
        panel=DESIGN,
    )
    preset: str = option(
        "standard",
        "; ".join(f"{name}: {preset.summary}" for name, preset in PRESETS.items()) + ".",
        "--preset",
        panel=DESIGN,
        known=tuple(PRESETS),
    )
    scaling: str = option(
        "weak",
        "weak: the batch size is per rank; strong: it is of all ranks together.",
        "--scaling",
        panel=DESIGN,
        known=SCALINGS,
    )
    compression: Names | None = option(
        None, f"Gradient compression: {','.join(COMPRESSIONS)}.", "--compression", panel=DESIGN
    )
    fp16_allreduce: bool = option(
        False, "Add fp16 to --compression.", "--fp16-allreduce", panel=DESIGN
    )
    reduction: Names | None = option(
        None, f"Reduction of the gradients: {','.join(REDUCTIONS)}.", "--reduction", panel=DESIGN
    )
    use_adasum: bool = option(False, "Add adasum to --reduction.", "--use-adasum", panel=DESIGN)
    engine: Names | None = option(
        None,
        f"What reduces the gradients: {','.join(ENGINES)}; horovod when not given. ddp is "
        "PyTorch's DistributedDataParallel, for comparison, on this host; data-parallel is its "
        "DataParallel on two GPUs or more (untried); tf-parameter-server "
        "starts 2 processes beside its workers, which --np counts.",
        "--engine",
        panel=DESIGN,
    )
    batch_size: int | None = option(
        None,
        "Samples per step; each model's default when not given.",
        "--batch-size",
        panel=MEASUREMENT,
        lowest=1,
    )
    image_size: int | None = option(
        None,
        "Edge of the input image in pixels (mnist is always 28).",
        "--image-size",
        panel=MEASUREMENT,
        lowest=1,
    )
    num_warmup_batches: int | None = option(
        None,
        "Warm-up steps; further warm-up is detected automatically. By preset: "
        f"{preset_values(lambda preset: preset.num_warmup_batches)}.",
        "--num-warmup-batches",
        panel=MEASUREMENT,
        lowest=1,
    )
    num_steps: int | None = option(
        None,
        "Measured steps per launch, without a time limit; --max-seconds decides when not given.",
        "--num-steps",
        panel=MEASUREMENT,
        lowest=2,
    )
    max_seconds: float | None = option(
        None,
        "Measured seconds per launch and model. By preset: "
        f"{preset_values(lambda preset: preset.max_seconds)}; no limit with --num-steps.",
        "--max-seconds",
        panel=MEASUREMENT,
        lowest=0.1,
    )
    repeats: int | None = option(
        None,
        "Launches of every configuration, interleaved; alone it is exact, with --precision or "
        f"--budget the most. By preset: {preset_values(lambda preset: preset.repeats)}.",
        "--repeats",
        panel=MEASUREMENT,
        lowest=1,
    )
    precision: Amount | None = option(
        None,
        "Stop when every efficiency is known to ± this, 3% or 0.03 (95 % CI, largest np of each "
        f"model). By preset: {preset_values(lambda preset: preset.precision)}.",
        "--precision",
        panel=MEASUREMENT,
    )
    budget: Amount | None = option(
        None,
        "Stop when this time is used, 5m or 90s. By preset: "
        f"{preset_values(lambda preset: preset.budget)}, or two repeats where these take longer.",
        "--budget",
        panel=MEASUREMENT,
    )
    interleave: bool = option(
        True,
        "Start the launches of a repeat together and let them take turns of about a second, the "
        "others stopped: a change of the machine then affects all alike. Only on one host without "
        "GPUs, and where all launches fit into memory.",
        "--interleave/--no-interleave",
        panel=MEASUREMENT,
    )
    num_threads: int | None = option(
        None,
        "Threads per rank, the same at every number of ranks.",
        "--num-threads",
        panel=MEASUREMENT,
        lowest=1,
    )
    light: bool = option(
        False,
        "Record means over windows of steps in the measured launches instead of steps and "
        "gradients, as `run --light` does; implies --no-interleave.",
        "--light",
        panel=MEASUREMENT,
    )
    attribution: bool = option(
        False,
        "Add a pass without Horovod's response cache; its timeline names stragglers.",
        "--attribution",
        panel=MEASUREMENT,
    )
    data: str = option(
        "synthetic",
        "synthetic, or digits: the handwritten digits of scikit-learn.",
        "--data",
        panel=MEASUREMENT,
        known=DATA_SOURCES,
    )
    data_dir: str | Path | None = option(
        None,
        "Folder with MNIST's IDX files, used instead of --data.",
        "--data-dir",
        panel=MEASUREMENT,
    )
    seed: int = option(42, "Seed of weights and data.", "--seed", panel=MEASUREMENT)
    timeout_s: float = option(
        300.0,
        "Seconds without progress on any rank after which a launch is ended as hung.",
        "--timeout",
        panel=MEASUREMENT,
        lowest=1,
    )
    env: tuple[str, ...] = option((), ENV_HELP, "--env", panel=RANKS, repeated=True)
    net: bool = option(True, NET_HELP, "--net/--no-net", panel=MEASUREMENT)
    fusion_threshold_mb: float | None = option(
        None, "HOROVOD_FUSION_THRESHOLD in MB.", "--fusion-threshold-mb", panel=HOROVOD, lowest=0
    )
    cycle_time_ms: float | None = option(
        None, "HOROVOD_CYCLE_TIME in ms.", "--cycle-time-ms", panel=HOROVOD, lowest=0
    )
    cache_capacity: int | None = option(
        None, "HOROVOD_CACHE_CAPACITY.", "--cache-capacity", panel=HOROVOD, lowest=0
    )
    price: float | None = option(None, PRICE_HELP, "--price", panel=OUTPUT, lowest=0)
    name: str = option("bench", "A name for the run.", "--name", panel=OUTPUT)
