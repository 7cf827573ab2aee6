"""A question's sizes and changed settings, as targets of the forecast."""

import math
from collections.abc import Sequence
from dataclasses import replace

from hvdprof.analyze.predict.horovod_loop import rounded_threshold
from hvdprof.analyze.predict.own_work import JobInputs, Reduction
from hvdprof.analyze.predict.predicted_step import Target
from hvdprof.errors import UsageError
from hvdprof.model.results.forecast import STRONG, WEAK, Question

FUSION, CYCLE = "HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME"
COMPRESSION, PASSES, BATCH = "compression", "backward_passes_per_step", "batch"
SETTINGS = (FUSION, CYCLE, COMPRESSION, PASSES, BATCH)
FP16, NONE = "fp16", "none"

LARGEST_SIZE = 8192
"""Each rank is simulated in every draw, which bounds memory."""


def checked(question: Question) -> Question:
    """The question with its sizes ascending and once each.

    Raises:
        UsageError: A size, a setting or the kind of scaling cannot be predicted.
    """
    sizes = tuple(sorted(set(question.sizes)))
    if not sizes or sizes[0] < 1 or sizes[-1] > LARGEST_SIZE:
        raise UsageError(
            f"Sizes to predict are numbers of ranks from 1 to {LARGEST_SIZE}.",
            hint="Example: --np 16,32,64,128.",
        )
    if question.scaling not in (WEAK, STRONG):
        raise UsageError(f"Scaling {question.scaling!r} is neither {WEAK} nor {STRONG}.")
    unknown = sorted(set(question.settings) - set(SETTINGS))
    if unknown:
        raise UsageError(
            f"No prediction for the setting {unknown[0]!r}.",
            hint=f"Settings: {', '.join(SETTINGS)}.",
        )
    if question.ranks_per_host is not None and question.ranks_per_host < 1:
        raise UsageError("A host has at least one rank.")
    return replace(question, sizes=sizes)


def targets(job: JobInputs, question: Question, ranks_per_host: int) -> Sequence[Target]:
    """What to predict, one target per size.

    With strong scaling the global batch of the reference is shared by all ranks.

    Args:
        job: The job as measured.
        question: Checked.
        ranks_per_host: Ranks on a full host.

    Raises:
        UsageError: A setting has a value that cannot be predicted.
    """
    reduction = changed_reduction(job.reduction, question, ranks_per_host)
    passes = int(_number(question, PASSES, 1))
    own_batch = job.own.reference.batch_size
    batch = _number(question, BATCH, own_batch) / own_batch
    found = []
    for size in question.sizes:
        share = job.num_ranks / size if question.scaling == STRONG else 1.0
        found.append(Target(size, ranks_per_host, reduction, batch * share, passes, share))
    return found


def changed_reduction(reduction: Reduction, question: Question, ranks_per_host: int) -> Reduction:
    """The reduction with the changed settings of a question."""
    if reduction.buckets is not None and {CYCLE, FUSION} & set(question.settings):
        raise UsageError(f"DDP has neither {CYCLE} nor {FUSION} to predict.")
    gradients, loop = reduction.gradients, reduction.loop
    compression = question.settings.get(COMPRESSION, NONE)
    if compression not in (FP16, NONE):
        raise UsageError(
            f"No prediction for compression={compression}.", hint=f"Known: {FP16}, {NONE}."
        )
    if compression == FP16:
        gradients = gradients.as_fp16()
    if CYCLE in question.settings:
        loop = replace(loop, cycle_ns=_number(question, CYCLE, 1.0) * 1e6)
    if FUSION in question.settings:
        threshold = int(_number(question, FUSION, 0.0))
        loop = replace(loop, fusion_bytes=rounded_threshold(threshold, ranks_per_host))
    return replace(reduction, gradients=gradients, loop=loop)


_VALUES: dict[str, tuple[str, float]] = {
    FUSION: ("bytes, 0 or more: 67108864 is 64 MiB", 0.0),
    CYCLE: ("milliseconds, 0.001 or more", 1e-3),
    PASSES: ("a whole number of 1 or more", 1.0),
    BATCH: ("samples per rank and step, 1 or more", 1.0),
}
"""Unit and range of each number in words, and the least one."""


def _number(question: Question, name: str, default: float) -> float:
    text = question.settings.get(name)
    if text is None:
        return default
    unit, least = _VALUES[name]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value < math.inf or (name == PASSES and value != int(value)):
        raise UsageError(
            f"{name}={text} is not a value that can be predicted.", hint=f"{name}: {unit}."
        )
    return value
