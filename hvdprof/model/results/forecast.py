"""What is asked of a forecast, and the finished answer.

``analyze.predict.forecast.forecast(analysis: RunAnalysis, question: Question) -> Forecast``
answers it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from hvdprof import units
from hvdprof.model.cell_key import HOROVOD_ENGINE
from hvdprof.model.file_page import FileVerdict
from hvdprof.model.notes import Note
from hvdprof.model.tables.forecast_tables import (
    FORECAST,
    FORECAST_CAUSES,
    FORECAST_MEASURE,
    FORECAST_WIDTHS,
    QUANTILES,
    THROUGHPUT_FORECAST,
)

DEFAULT_NUM_DRAWS = 2000
DEFAULT_SEED = 20180215
STATED_BASELINE = "stated np=1"
"""Baseline of a model without a run: the throughput of one rank is stated, nothing is measured."""

DEFAULT_TARGET = 0.8
"""Efficiency that the largest useful number of ranks still reaches."""

WEAK, STRONG = "weak", "strong"
"""Scaling with a fixed batch per rank, and with a fixed global batch."""

MEASURED = "measured"
"""Scenario whose network is that of the run."""

INPUTS: dict[str, str] = {
    "own-work": "own work per rank and step",
    "contention": "compute slowdown while communicating",
    "rank-differences": "persistent differences between ranks",
    "jitter": "jitter from step to step",
    "ready-times": "ready times of the gradients",
    "links": "latency and bandwidth of the links",
    "negotiation": "Horovod's negotiation and cycle",
    "model": "model error beyond the measured sizes",
}
"""Inputs of a forecast, by the name that FORECAST_WIDTHS uses."""

MEASUREMENTS: dict[str, str] = {
    "repeats": "more repeats of the measured sizes",
    "steps": "more steps of the largest measured size",
    "ranks": "more ranks than any measured size",
    "network": "the network between two hosts",
}
"""Kinds of measurements that FORECAST_MEASURE weighs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to predict.

    Attributes:
        sizes: Numbers of ranks to predict.
        model: Model of the run; empty where it has one.
        engine: horovod or ddp; empty for Horovod where it was measured, else DDP.
        ranks_per_host: Ranks on a full host; None for as many as in the run.
        links: Networks between hosts, as ``25Gbit,15us`` each; empty for that of the run, or for
            scenarios where the run was on one host.
        intra: Link between the ranks of a host, as ``shm`` or ``nvlink:300GB/s``; empty for that
            of the run.
        scaling: ``weak`` or ``strong``.
        settings: Changed settings by name: ``HOROVOD_FUSION_THRESHOLD``, ``HOROVOD_CYCLE_TIME``,
            ``compression``, ``backward_passes_per_step``, ``batch``; values as users write them.
        algorithm: A name of ``analyze.predict.collective_cost.Algorithm``; empty for the one that
            fits the measured collectives.
        keeps_stragglers: Whether named stragglers are expected among the new ranks, too.
        target: Efficiency of the largest useful number of ranks.
        past_errors: Of earlier forecasts: extrapolation ratio, and the logarithm of the measured
            step time divided by its predicted median.
        num_draws: Draws of the Monte Carlo simulation.
        seed: Seed of its random numbers.
    """

    sizes: tuple[int, ...]
    model: str = ""
    engine: str = ""
    ranks_per_host: int | None = None
    links: tuple[str, ...] = ()
    intra: str = ""
    scaling: str = WEAK
    settings: Mapping[str, str] = field(default_factory=dict)
    algorithm: str = ""
    keeps_stragglers: bool = True
    target: float = DEFAULT_TARGET
    past_errors: tuple[tuple[float, float], ...] = ()
    num_draws: int = DEFAULT_NUM_DRAWS
    seed: int = DEFAULT_SEED

    @property
    def what_if(self) -> tuple[str, ...]:
        """What is assumed to differ from the measured job; sizes and links between hosts do not."""
        found = [f"{name}={value}" for name, value in self.settings.items()]
        found += ["strong scaling"] if self.scaling == STRONG else []
        found += [f"the algorithm {self.algorithm}"] if self.algorithm else []
        found += [f"{self.intra} inside hosts"] if self.intra else []
        found += [] if self.keeps_stragglers else ["no stragglers among added ranks"]
        return tuple(found)

    @property
    def what_if_clause(self) -> str:
        """`` with A, B and C``, to follow a number of ranks; empty for the measured job."""
        *others, last = self.what_if or ("",)
        return f" with {' and '.join(filter(None, [', '.join(others), last]))}" if last else ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where scaling ends under one network.

    ``knee`` is the smallest predicted number of ranks from which a doubling costs more than 5
    points of efficiency in most draws; None within the predicted sizes. ``largest_np`` is the
    largest number of ranks at the target efficiency in the median draw, ``largest_np_low`` and
    ``largest_np_high`` the ends of its 90 % interval; 0 where even the smallest predicted size
    misses the target. ``is_beyond`` says that the largest predicted size still reaches the target
    in the median draw, ``is_high_beyond`` that it does at the upper end: the numbers are lower
    bounds then. ``is_low_open`` says that the lower end is not known, because the tail of the
    jitter is not.
    """

    scenario: str
    knee: int | None
    knee_probability: float
    largest_np: float
    largest_np_low: float
    largest_np_high: float
    is_beyond: bool
    is_high_beyond: bool
    is_low_open: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that the run does not hold: what, what the forecast does instead, what to run.

    ``command`` is empty where no command of hvdprof supplies it.
    """

    what: str
    instead: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A finished forecast of one model; reports and figures only format it.

    Attributes:
        question: What was asked, with defaults filled in: ``sizes`` ascending, ``model`` and
            ``engine`` named.
        baseline: Reference of the efficiency, such as ``torch np=1``, as in SCALING.
        baseline_samples_per_s: Throughput of the baseline.
        measured_np: Numbers of ranks that the fit uses, ascending.
        excluded_np: Measured numbers of ranks that it does not use: more ranks than cores.
        algorithm: Algorithm of the collectives.
        algorithm_probability: Its weight among all algorithms, given the measured collectives; NaN
            where it was chosen by name.
        scenarios: Names of the networks, in the order of the tables.
        rows: FORECAST.
        causes: FORECAST_CAUSES.
        widths: FORECAST_WIDTHS, for the largest predicted size.
        measurements: FORECAST_MEASURE.
        limits: Knee and largest number of ranks at the target, one per scenario.
        assumptions: What the numbers rest on beyond the run, one sentence each.
        missing: What the run does not hold.
        caveats: What limits the numbers of the run, and with them the forecast.
        tail_index: Shape (xi) of the Pareto tail of the jitter; NaN where it was not fitted. Above
            0.3 the tail is not known.
    """

    question: Question
    baseline: str
    baseline_samples_per_s: float
    measured_np: tuple[int, ...]
    excluded_np: tuple[int, ...] = ()
    algorithm: str = ""
    algorithm_probability: float = float("nan")
    scenarios: tuple[str, ...] = (MEASURED,)
    rows: pd.DataFrame = field(default_factory=FORECAST.empty)
    causes: pd.DataFrame = field(default_factory=FORECAST_CAUSES.empty)
    widths: pd.DataFrame = field(default_factory=FORECAST_WIDTHS.empty)
    measurements: pd.DataFrame = field(default_factory=FORECAST_MEASURE.empty)
    limits: tuple[Limits, ...] = ()
    assumptions: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    caveats: tuple[Note, ...] = ()
    tail_index: float = float("nan")

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.question.model

    @property
    def engine(self) -> str:
        """Reduction engine: horovod or ddp."""
        return self.question.engine or HOROVOD_ENGINE


@dataclass(frozen=True, slots=True)
class StoredForecast:
    """A forecast with the name of its file and the time at which it was made (ISO 8601, UTC)."""

    name: str
    created_at: str
    forecast: Forecast


def efficiency_sentence(median: float, low: float, high: float, where: str) -> str:
    """The efficiency (0..1) on ``64 ranks`` with its 90 % band; not known where that is too wide.

    ``low`` is NaN where the band has no lower end.
    """
    if units.says_nothing(median, low, high):
        ends = f"{units.percent(low, 0)} to " if low == low else "up to "
        ends += units.percent(high, 0)
        return f"The scaling efficiency on {where} is not known: its 90 % band spans {ends}."
    return f"{units.percent_band(median, low, high)} scaling efficiency on {where}."


def limit_sentence(limits: Limits, target: float) -> str:
    """Up to how many ranks the efficiency reaches the target, with the 90 % interval."""
    goal = units.percent_limit(target)
    if limits.largest_np_high < 1:
        return f"No predicted size reaches {goal}."
    low = "unknown" if limits.is_low_open else units.count(limits.largest_np_low)
    high = "more than " * limits.is_high_beyond + units.count(limits.largest_np_high)
    interval = f"90 % interval {low} to {high}"
    if limits.is_beyond:
        beyond = f"{goal} or more is likely up to {units.count(limits.largest_np)} ranks and beyond"
        return f"{beyond} ({interval})."
    if limits.largest_np < 1:
        return (
            f"No predicted size is likely to reach {goal} (90 % interval: up to "
            f"{units.count(limits.largest_np_high)} ranks{' or more' * limits.is_high_beyond})."
        )
    return f"{goal} is reached up to {units.count(limits.largest_np)} ranks ({interval})."


@dataclass(frozen=True, slots=True)
class NextSize:
    """The number of ranks of a series whose measurement narrows the band most per rank.

    ``band_before`` and ``band_after`` are widths of the 90 % band of the efficiency at
    ``target_np`` ranks, now and as expected after the measurement.
    """

    series: str
    np: int
    target_np: int
    band_before: float
    band_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputForecast:
    """A forecast of every series of a table.

    Attributes:
        rows: THROUGHPUT_FORECAST.
        measured: THROUGHPUT_SCALING of the table.
        limits: Knee and largest number of ranks at the target, one per series, which is its
            ``scenario``.
        next_sizes: What to measure next, at most one per series.
        verdicts: At most two sentences and a caveat per series.
        target: Efficiency of the largest useful number of ranks.
        seed: Seed of the draws.
        notes: What was left out of the table, or not predicted.
    """

    rows: pd.DataFrame = field(default_factory=THROUGHPUT_FORECAST.empty)
    measured: pd.DataFrame
    limits: tuple[Limits, ...] = ()
    next_sizes: tuple[NextSize, ...] = ()
    verdicts: tuple[FileVerdict, ...] = ()
    target: float = DEFAULT_TARGET
    seed: int
    notes: tuple[str, ...] = ()

    def without_rates(self) -> "ThroughputForecast":
        """The same of numbers that were not samples/s, such as speed-ups: they compare sizes."""
        unknown = {f"samples_per_s_{short}": float("nan") for short in QUANTILES}
        return replace(
            self,
            rows=self.rows.assign(**unknown),
            measured=self.measured.assign(samples_per_s=float("nan")),
        )
