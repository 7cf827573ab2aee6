"""The options of every measurement, and the reference models that they name; light to import."""

from hvdprof.bench_models.registry import MODELS
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.bench_settings import KnownModel
from hvdprof.launch.plan.compare_options import CompareOptions
from hvdprof.launch.plan.options import (
    OUTPUT,
    Option,
    RankOptions,
    arguments_of,
    declared,
    default_of,
    option,
)
from hvdprof.launch.plan.predict_options import PredictOptions
from hvdprof.launch.plan.run_options import FunctionOptions, RunOptions
from hvdprof.launch.plan.trial_options import NetOptions, SelftestOptions
from hvdprof.launch.plan.tune_options import TuneOptions

__all__ = [
    "KNOWN_MODELS",
    "OUTPUT",
    "BenchOptions",
    "CompareOptions",
    "FunctionOptions",
    "NetOptions",
    "Option",
    "PredictOptions",
    "RankOptions",
    "RunOptions",
    "SelftestOptions",
    "TuneOptions",
    "arguments_of",
    "declared",
    "default_of",
    "option",
]

KNOWN_MODELS = {
    model.name: KnownModel(
        default_batch_size=model.batch_size,
        default_image_size=model.image_size,
        min_image_size=model.min_image_size,
        fixed_image_size=model.max_image_size is not None,
        num_parameters=model.num_parameters,
    )
    for model in MODELS
}
"""The reference models by name."""
