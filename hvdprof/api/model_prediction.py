"""What a model reaches at numbers of ranks that were never run: its gradients, and priors."""

from dataclasses import replace

import numpy as np

from hvdprof.analyze.predict.costs.collective_cost import Algorithm
from hvdprof.analyze.predict.costs.gradient_trace import Gradients
from hvdprof.analyze.predict.job_forecast import job_forecast
from hvdprof.analyze.predict.stated_job import StatedJob, stated_facts, stated_inputs
from hvdprof.errors import MissingExtraError, UsageError
from hvdprof.model.cell_key import HOROVOD_ENGINE
from hvdprof.model.results.forecast import Forecast, Question

Throughput = float | str | tuple[float, float]
"""Samples per second: 154, a range ``"115-162"``, or its ends."""

CACHE = "HOROVOD_CACHE_CAPACITY"
DEFAULT_BATCH = 64


def predict_model(
    question: Question,
    samples_per_s: Throughput,
    *,
    batch_size: int = DEFAULT_BATCH,
    on_gpu: bool = True,
) -> Forecast:
    """The efficiency band of a model that was never run (docs/explain/prediction.md).

    Sizes and order of its gradients come from the model itself, which is built without memory and
    not computed. Everything else is stated, or drawn from priors that ``assumptions`` lists.

    Args:
        question: ``model`` is a reference model, or ``module:function`` as of
            ``hvdprof.bench_models.model_gradients``. A host has one rank, links are stated speeds
            from 1 to 400 Gbit/s, and collectives are rings where it says nothing else. Of the
            settings ``HOROVOD_CACHE_CAPACITY=0`` turns Horovod's response cache off.
        samples_per_s: Throughput of one rank alone; a range is uniform.
        batch_size: Samples per rank and step.
        on_gpu: Whether collectives run beside Horovod's loop, on a stream of a GPU.

    Raises:
        UsageError: The model, a number or a setting cannot be used.
        MissingExtraError: torch is not installed.
    """
    settings = dict(question.settings)
    cache = settings.pop(CACHE, "")
    rates = _range(samples_per_s)
    if batch_size < 1:
        raise UsageError(f"A batch size of {batch_size} is below 1.")
    if question.algorithm and question.algorithm not in tuple(Algorithm):
        raise UsageError(
            f"There is no algorithm {question.algorithm!r}.",
            hint=f"Known: {', '.join(Algorithm)}.",
        )
    try:
        from hvdprof.bench_models.model_gradients import model_gradients
    except ImportError as error:
        raise MissingExtraError("A prediction without a run", extra="bench") from error
    found = model_gradients(question.model)
    sizes = np.asarray(found.size_bytes, dtype=np.int64)
    job = StatedJob(
        gradients=Gradients(found.names, sizes, found.dtypes),
        costs=found.costs,
        samples_per_s=rates,
        batch_size=batch_size,
        ranks_per_host=question.ranks_per_host or 1,
        is_cached=cache != "0",
        on_gpu=on_gpu,
        algorithm=Algorithm(question.algorithm) if question.algorithm else None,
    )
    asked = replace(question, settings=settings, engine=HOROVOD_ENGINE)
    return job_forecast(stated_inputs(job, question.seed), asked, stated_facts(job, question.model))


def _range(samples_per_s: Throughput) -> tuple[float, float]:
    ends = (0.0, 0.0)
    try:
        if isinstance(samples_per_s, str):
            low, _, high = samples_per_s.partition("-")
            ends = (float(low), float(high or low))
        elif isinstance(samples_per_s, tuple):
            ends = samples_per_s
        else:
            ends = (float(samples_per_s), float(samples_per_s))
    except ValueError:
        # Not a number: refused below as 0 is.
        pass
    if not 0 < ends[0] <= ends[1] < float("inf"):
        raise UsageError(
            f"{samples_per_s!r} is no throughput.",
            hint="Samples per second of one rank: 154, or a range: 115-162.",
        )
    return ends
