"""Horovod's published 90, 90 and 68 % at 512 GPUs, predicted without any run.

``python -m benchmarks.published_scaling [--write docs/explain/prediction.md]`` prints three tables:
the efficiencies from priors alone, those of a loop that waits for each collective, and those after
calibration on some of the three numbers. One unknown machine is behind all of them, so a draw has
the same network, ranks and speed of the GPU for all three models.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof.analyze.predict.costs.collective_cost import Link
from hvdprof.analyze.predict.costs.cost_draws import CostDraws
from hvdprof.analyze.predict.costs.gradient_trace import Gradients
from hvdprof.analyze.predict.draws import Draws, draw, under
from hvdprof.analyze.predict.predicted_step import StepModel, Target
from hvdprof.analyze.predict.stated_job import StatedJob, stated_inputs
from hvdprof.bench_models.model_gradients import model_gradients
from hvdprof.model.arrays import Bools, Float64s

NUM_RANKS, RANKS_PER_HOST = 512, 4
BYTES_PER_NS = 25 / 8
USED_SHARE = (0.55, 0.95)
"""Of the bandwidth of the NIC: headers, protocol, congestion."""

LATENCY_NS = (5_000.0, 25_000.0)
"""Of RoCE with NCCL's own overhead per hop."""

CYCLE_NS, FUSION_BYTES = 5e6, 64 * 2**20
"""Horovod's defaults of 2018."""

RATE_RANGE = (0.75, 1.05)
"""Of the rates below: other clocks, drivers and versions of cuDNN."""

TOLERANCE = 0.02
NUM_DRAWS, SEED = 6000, 20180215
SECTION = "published"


@dataclass(frozen=True, slots=True)
class Published:
    """A published efficiency, and samples/s of a P100 at batch 64 in TensorFlow's benchmarks."""

    model: str
    efficiency: float
    rate: float


# ResNet-101 is not among TensorFlow's benchmarks: the time per image is interpolated between
# ResNet-50 (219 images/s) and ResNet-152 (91.8) by multiplications (4.1, 7.8 and 11.5 billion).
PUBLISHED = (
    Published("inception_v3", 0.90, 142.0),
    Published("resnet101", 0.90, 129.0),
    Published("vgg16", 0.68, 154.0),
)
VGG, OTHERS = ("vgg16",), ("inception_v3", "resnet101")


@dataclass(frozen=True, slots=True)
class Prediction:
    """[draws] Efficiencies of the three models, and what is unknown of the machine."""

    efficiency: dict[str, Float64s]
    used_share: Float64s
    latency_ns: Float64s


def roce(costs: CostDraws, rng: np.random.Generator) -> CostDraws:
    """25 Gbit/s between hosts, of which collectives reach a part."""
    num = costs.num_draws
    beta = 1 / (BYTES_PER_NS * rng.uniform(*USED_SHARE, num))
    return replace(costs, inter=Link(rng.uniform(*LATENCY_NS, num), beta))


def predict(*, batch: int = 64, waits: bool = False, with_model_error: bool = False) -> Prediction:
    """The three models on one unknown machine.

    Args:
        batch: Samples per rank.
        waits: Whether Horovod's loop waits for each collective.
        with_model_error: Whether draws include what the model does not hold.
    """
    efficiency: dict[str, Float64s] = {}
    links = Link(0.0, 0.0)
    for one in PUBLISHED:
        found = model_gradients(one.model)
        low, high = (one.rate * end for end in RATE_RANGE)
        job = StatedJob(
            gradients=Gradients.of_sizes(found.size_bytes, found.names),
            costs=found.costs,
            samples_per_s=(low, high),
            batch_size=batch,
            ranks_per_host=RANKS_PER_HOST,
            cycle_ns=CYCLE_NS,
            fusion_bytes=FUSION_BYTES,
            is_cached=False,
            on_gpu=not waits,
        )
        inputs = stated_inputs(job, SEED)
        target = Target(NUM_RANKS, RANKS_PER_HOST, inputs.reduction)
        draws = draw(inputs, np.random.default_rng(SEED), NUM_DRAWS, target.topology)
        draws = under(draws if with_model_error else _without_model_error(draws), roce)
        efficiency[one.model] = StepModel(inputs, [target]).steps(draws)[0].efficiency
        links = draws.links.predicted.inter
    beta = np.asarray(links.beta_ns_per_byte)
    return Prediction(efficiency, 1 / beta / BYTES_PER_NS, np.asarray(links.alpha_ns))


def _without_model_error(draws: Draws) -> Draws:
    error = draws.model
    return replace(
        draws, model=replace(error, of_step=error.of_step * 0, of_loss=error.of_loss * 0)
    )


def agreeing(found: Prediction, models: Sequence[str]) -> Bools:
    """[draws] Whether the published numbers of these models are met within ``TOLERANCE``."""
    wanted = {one.model: one.efficiency for one in PUBLISHED}
    within = [np.abs(found.efficiency[name] - wanted[name]) <= TOLERANCE for name in models]
    return np.asarray(np.logical_and.reduce(within))


def prior_table(columns: Mapping[str, Prediction]) -> str:
    """Quantiles of every column, one row per model."""
    lines = [
        "| model | published | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for one in PUBLISHED:
        texts = [_quantiles(found.efficiency[one.model], one) for found in columns.values()]
        lines.append(f"| {one.model} | {100 * one.efficiency:.0f} | {' | '.join(texts)} |")
    return "\n".join(lines)


def calibrated_table(found: Prediction) -> str:
    """What two models become by the third, and the third by the two."""
    names = {VGG: "VGG-16 alone", OTHERS: "the other two alone"}
    lines = ["| model | published | " + " | ".join(f"by {text}" for text in names.values()) + " |"]
    lines.append("|---" * (len(names) + 2) + "|")
    masks = {models: agreeing(found, models) for models in names}
    for one in PUBLISHED:
        texts = [
            "(used)" if one.model in models else _quantiles(found.efficiency[one.model][mask], one)
            for models, mask in masks.items()
        ]
        lines.append(f"| {one.model} | {100 * one.efficiency:.0f} | {' | '.join(texts)} |")
    counts = [
        f"{int(mask.sum())} draws agree with {names[models]}" for models, mask in masks.items()
    ]
    every = agreeing(found, (*VGG, *OTHERS))
    text = f"Of {NUM_DRAWS} draws, {', '.join(counts)}, {int(every.sum())} with all three"
    if every.any():
        share = 100 * np.quantile(found.used_share[every], [0.05, 0.5, 0.95])
        latency = np.quantile(found.latency_ns[every], [0.05, 0.5, 0.95]) / 1e3
        text += (
            f"; these use {share[1]:.0f} % of the NIC ({share[0]:.0f} to {share[2]:.0f}) and take "
            f"{latency[1]:.0f} us per hop between hosts ({latency[0]:.0f} to {latency[2]:.0f})"
        )
    return "\n".join([*lines, "", f"{text}."])


def _quantiles(values: Float64s, one: Published) -> str:
    if len(values) < 20:
        return f"only {len(values)} draws"
    low, middle, high = (100 * float(end) for end in np.quantile(values, [0.05, 0.5, 0.95]))
    inside = "" if low <= 100 * one.efficiency <= high else ", missed"
    return f"{middle:.0f} ({low:.0f} to {high:.0f}{inside})"


def report() -> str:
    """All tables as Markdown."""
    streams, waiting = predict(), predict(waits=True)
    small = predict(batch=32), predict(batch=32, waits=True)
    return "\n\n".join(
        [
            prior_table(
                {
                    "priors, batch 64": streams,
                    "with model error": predict(with_model_error=True),
                    "batch 32": small[0],
                    "waiting loop, batch 64": waiting,
                    "waiting loop, batch 32": small[1],
                }
            ),
            "Calibrated, collectives on a stream:",
            calibrated_table(streams),
            "Calibrated, waiting loop:",
            calibrated_table(waiting),
        ]
    )


def main() -> None:
    """Print the tables and write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    text = report()
    print(text)
    if options.write is not None:
        write_section(options.write, SECTION, text)


if __name__ == "__main__":
    main()
