"""Batches of different sizes: ranks that train more samples than the others take longer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.model.cell_key import LAUNCH
from hvdprof.rank_names import ranks_named

LEAST_DIFFERENCE = 0.1
"""Smallest difference of the samples, as a share of the others', that explains a straggler."""

NORMAL_TIME = 0.15
"""Largest difference of the time per sample, as a share, within which it is normal."""

_EVEN_BATCHES = advice(
    "give all ranks batches of the same number of samples: a DistributedSampler, `drop_last=True`, "
    "or buckets of equal length"
)


@dataclass(frozen=True, slots=True)
class UnevenBatches:
    """That some ranks train more samples per step than the others, as a sentence, and the fix."""

    sentence: str
    fix: Advice


def uneven_batches(evidence: Evidence, cell: Cell, ranks: Sequence[int]) -> UnevenBatches | None:
    """Whether ranks that are late train more samples per step; None where they do not.

    Their time per sample is that of forward and backward.

    Args:
        evidence: The run.
        cell: A row of SCALING.
        ranks: Stragglers; not all ranks.
    """
    steps = evidence.rows_of(evidence.run.steps, cell)
    is_late = steps["rank"].isin(ranks)
    late, others = steps[is_late], steps[~is_late]
    if late.empty or others.empty or not (late["samples"].mean() > 0 < others["samples"].mean()):
        return None
    own, usual = float(late["samples"].mean()), float(others["samples"].mean())
    if own < (1 + LEAST_DIFFERENCE) * usual:
        return None
    ratio = _time_per_sample(late) / _time_per_sample(others)
    slower = ""
    if np.isfinite(ratio):
        how = "like that of the others"
        if abs(ratio - 1) > NORMAL_TIME:
            how = f"{ratio:.1f} times that of the others"
        slower = f" Time per sample is {how}."
    who, verb = ranks_named(tuple(ranks)), "trains" if len(ranks) == 1 else "train"
    sizes = f"{units.count(round(own))} samples per step, the others {units.count(round(usual))}"
    name = f"{who[0].upper()}{who[1:]}"
    return UnevenBatches(f"{name} {verb} {sizes} (mean).{slower}", _EVEN_BATCHES)


def sizes_within_steps(evidence: Evidence, cell: Cell) -> str:
    """A sentence on batches that differ between the ranks of a step; empty where they do not.

    Args:
        evidence: The run.
        cell: A row of SCALING.
    """
    steps = evidence.rows_of(evidence.run.steps, cell)
    if steps.empty or not (steps["samples"] > 0).all():
        return ""
    by_step = steps.groupby([*LAUNCH, "step"], observed=True)["samples"]
    ratio = float((by_step.max() / by_step.min()).mean())
    if ratio < 1 + LEAST_DIFFERENCE:
        return ""
    return (
        f"Batches differ: the largest of a step has {ratio:.1f} times the samples of the "
        "smallest (mean)."
    )


def _time_per_sample(steps: pd.DataFrame) -> float:
    compute_ns = float((steps["forward_ns"] + steps["backward_ns"]).sum())
    samples = float(steps["samples"].sum())
    return compute_ns / samples if compute_ns > 0 and samples else float("nan")
