"""What a job reaches at other numbers of ranks: from a run, or from throughputs alone.

Tested in ``tests/api/test_prediction.py``.
"""

from collections.abc import Iterable

from hvdprof.analyze.predict.throughput_forecast import throughput_forecast
from hvdprof.errors import UsageError
from hvdprof.ingest.load import SAMPLES_PER_S, read_scaling_text
from hvdprof.launch.plan.bench_settings import parse_sizes
from hvdprof.launch.plan.options import Sizes
from hvdprof.model.forecast import DEFAULT_TARGET
from hvdprof.model.throughput_forecast import ThroughputForecast

__all__ = ["ThroughputForecast", "predict_throughput"]


def predict_throughput(
    lines: Iterable[str],
    np: Sizes | None = None,
    *,
    name: str = "table",
    unit: str | None = None,
    strong: bool = False,
    target: float = DEFAULT_TARGET,
) -> ThroughputForecast:
    """Efficiency bands at unseen numbers of ranks, from measured throughputs alone.

    ``rows`` has one row per series and number of ranks (efficiency and samples_per_s at the
    quantiles ``_p5`` to ``_p95``; ratios 0..1), ``limits`` the knee and the largest number of ranks
    at the target, ``next_sizes`` what to measure next (docs/howto/predict.md).

    Args:
        lines: A table of numbers of ranks and speeds as of ``scaling_of_text``.
        np: Numbers of ranks above the measured ones; three doublings when not given.
        name: The name of the table in messages.
        unit: Unit of the speeds; the name of the column decides when not given.
        strong: Strong scaling: a step is the same work at every size.
        target: Efficiency of the largest useful number of ranks, 0..1.

    Raises:
        UsageError: No asked number of ranks is above the measured ones, or no unit has that name.
        UnreadableInputError: The table holds fewer than two sizes.
    """
    sizes = () if np is None else parse_sizes(np)
    text = read_scaling_text(lines, name=name, unit=unit, strong=strong)
    found = throughput_forecast(
        text.throughput, sizes, strong=strong, target=target, notes=text.notes
    )
    if found.rows.empty:
        largest = int(text.throughput["np"].max())
        asked = ", ".join(str(size) for size in sizes)
        raise UsageError(
            f"Nothing to predict at np={asked}: np={largest} is measured.",
            hint=f"--np {2 * largest},{4 * largest},{8 * largest}",
        )
    if text.unit == SAMPLES_PER_S:
        return found
    return found.without_rates()
