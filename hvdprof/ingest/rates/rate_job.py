"""One run in a file of printed rates, and the throughputs that they give.

Tested in ``tests/ingest/logs/test_printed_rates.py``.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from hvdprof.ingest.rates.formats import OTHER, SYNTHETIC, TF_CNN
from hvdprof.ingest.rates.job_settings import Settings
from hvdprof.ingest.rates.rate_format import (  # fmt: skip
    JOB,
    RANK,
    SAMPLES,
    STEPS,
    TOKENS,
    N,
    Printed,
    RateFormat,
    RateLines,
    is_stated,
    rates_in,
)
from hvdprof.ingest.storage.row_buffer import MISSING, Packed
from hvdprof.model.arrays import Int64s

_WITH_TOTALS = (TF_CNN, SYNTHETIC)
_ROUNDING = 0.01
_FEWEST = 2
_RANKS = 10**8
_SIGMAS = 1.96
"""Horovod's synthetic benchmarks print so many standard deviations of their iterations."""


class Throughput(NamedTuple):
    """The throughput of all ranks of a run; the rest as in THROUGHPUT."""

    line: int
    series: str
    np: int
    rate: float
    error: float = float("nan")
    num_values: int | None = None


@dataclass(slots=True)
class RateJob:
    """One run: what its header said, and the rates that its ranks printed.

    Attributes:
        number: Its number in the file.
        np_of_name: The number of ranks that the user, or the name of the file, states; it counts
            where the header states none.
        totals: Tool, number of ranks, line, rate, and what is printed behind +-.
        steps: Rates of iterations by tool, unit, what they are per, and whether they are means; of
            each rank.
        has_total: A total is printed, whether for a known number of ranks or not.
        last_line: The last line with a rate.
    """

    number: int
    np_of_name: int | None
    settings: Settings = field(default_factory=Settings)
    ranks: set[int | None] = field(default_factory=set)
    totals: list[tuple[str, int, int, float, float]] = field(default_factory=list)
    steps: dict[tuple[str, str, str, bool], dict[int | None, list[float]]] = field(
        default_factory=dict
    )
    has_total: bool = False
    last_line: int = 0

    @property
    def np(self) -> int | None:
        """The number of ranks; the header counts before the name of the file."""
        return self.settings.np or self.np_of_name

    def is_seen(self, rank: int | None) -> bool:
        """Whether the rank has printed a rate in this run; output without tags is of any rank."""
        return rank in self.ranks or (rank is None and bool(self.ranks))

    def ends_early(self) -> bool:
        """Whether ranks of a benchmark print rates, and no total."""
        return not self.has_total and any(tool in _WITH_TOTALS for tool, *_ in self.steps)

    def throughputs(self) -> Iterator[Throughput]:
        """By the totals, which are averaged and never summed; without any, by the steps."""
        for tool, of_np in dict.fromkeys(row[:2] for row in self.totals):
            rows = [row for row in self.totals if row[:2] == (tool, of_np)]
            rate = sum(row[3] for row in rows) / len(rows)
            error, number = self._error(tool, max(row[4] for row in rows))
            yield Throughput(rows[-1][2], self._series(tool), of_np, rate, error, number)
        tools = {tool: (unit, per) for tool, unit, per, _ in reversed(self.steps) if per}
        for tool, (unit, per) in tools.items() if not self.totals else ():
            size = self.np or self._np_of_both(tool, unit)
            rates = self._steady(tool, unit, per)
            if size and rates and unit != STEPS:
                rate = statistics.median(rates) * (size if per == RANK else 1)
                series = self._series(tool, unit if unit == TOKENS else "")
                yield Throughput(self.last_line, series, size, rate)

    def counted(self, kind: RateFormat, one: Printed[N]) -> tuple[Printed[N], str]:
        """A rate as it counts here, and what it is per.

        Where the header states the tokens of a step, tokens per second of the job; where it states
        the batch, the time of a step follows.
        """
        tokens, batch = self.settings.number("tokens"), self.settings.number("batch")
        if tokens and one.unit == STEPS and is_stated(one.step):
            return replace(one, rate=tokens / one.step, unit=TOKENS), JOB
        is_of_rank = kind.per == RANK and one.unit == SAMPLES
        if batch and is_of_rank and one.step is None and is_stated(one.rate):
            return replace(one, step=batch / one.rate), kind.per
        return one, kind.per

    def add_steps(
        self, kind: tuple[str, str, str, bool], rank: int | None, rates: Sequence[float]
    ) -> None:
        """Keep rates of some iterations of a rank; ``kind`` is a key of ``steps``."""
        self.steps.setdefault(kind, {}).setdefault(rank, []).extend(rates)

    def _error(self, tool: str, spread: float) -> tuple[float, int | None]:
        """The error of a total by its +-, and the iterations of one rank that are in the file."""
        deviation = spread / _SIGMAS if tool == SYNTHETIC else float("nan")
        ranks = self.steps.get((tool, SAMPLES, RANK, False), {}).values()
        number = max(map(len, ranks), default=0)
        if number < _FEWEST or math.isnan(deviation):
            return deviation, None
        # The deviation is that of all iterations, divided by their number.
        return deviation / math.sqrt(number - 1), number

    def _steady(self, tool: str, unit: str, per: str) -> list[float]:
        """The rates without the first line of each rank, which holds start-up, else last means."""
        of_ranks = self.steps.get((tool, unit, per, False), {}).values()
        rates = [rate for own in of_ranks for rate in own[1:]]
        # What tf_cnn_benchmarks prints before its total is a mean of one rank.
        means = self.steps.get((tool, unit, per, True), {}) if tool != TF_CNN else {}
        return rates or [own[-1] for own in means.values()]

    def _np_of_both(self, tool: str, unit: str) -> int | None:
        """The number of ranks where rates of the job and of a rank are printed side by side."""
        of_job, of_rank = (
            next(iter(self.steps.get((tool, unit, per, False), {}).values()), [0.0])[-1]
            for per in (JOB, RANK)
        )
        if not of_job or not of_rank:
            return None
        ratio = of_job / of_rank
        return round(ratio) if abs(ratio - round(ratio)) < _ROUNDING * ratio else None

    def _series(self, tool: str, unit: str = "") -> str:
        if tool == OTHER:
            return "printed throughput"
        model, batch = self.settings.model, self.settings.said.get("batch")
        if tool in _WITH_TOTALS:
            model = model or "unnamed model"
        named = " ".join(filter(None, (tool, unit, model)))
        return f"{named}, batch {batch}" if batch else named


class RateColumns(NamedTuple):
    """Rates of many lines, in their order.

    ``forms`` are kinds, units, what they are per, whether they are running means, and ranks;
    ``form`` is that of each rate, and ``numbers`` are columns of PRINTED_RATES.
    """

    forms: list[tuple[RateFormat, str, str, bool, int | None]]
    form: Int64s
    numbers: dict[str, Packed]

    @classmethod
    def of(cls, found: Sequence[RateLines], job: RateJob) -> Self:
        """Those that some lines show in a job."""
        said, parts = list[tuple[RateFormat, str, str, bool]](), []
        for kind, lines in found:
            for printed in rates_in(kind, lines.get):
                one, per = job.counted(kind, printed)
                columns = {
                    "order": 2 * lines["order"] + one.running_mean,
                    "said": len(said),
                    "rank": lines["rank"],
                    "line": lines["line"],
                    "iteration": lines.get("n", MISSING),
                    "rate": one.rate,
                    "mean_of": lines.get("n", 0) + kind.from_zero if one.running_mean else MISSING,
                    "step_ns": _ns(one.step),
                    "data_ns": _ns(one.data),
                    "spread": lines.get("spread", math.nan),
                }
                said.append((kind, one.unit, per, one.running_mean))
                parts.append(pd.DataFrame(columns))
        rows = pd.concat(parts).sort_values("order", kind="stable")
        form, keys = pd.factorize((rows["said"] * _RANKS + rows["rank"] + 1).to_numpy(np.int64))
        whose = [divmod(key, _RANKS) for key in keys.tolist()]
        forms = [(*said[number], rank - 1 if rank else None) for number, rank in whose]
        whole = ("line", "iteration", "mean_of", "step_ns", "data_ns")
        return cls(
            forms,
            form,
            {
                name: rows[name].to_numpy(np.int64 if name in whole else np.float64)
                for name in (*whole, "rate", "spread")
            },
        )

    def add_to(self, job: RateJob) -> None:
        """Give a job its rates."""
        by_form = self.numbers["rate"][np.argsort(self.form, kind="stable")]
        rates = np.split(by_form, np.cumsum(np.bincount(self.form))[:-1])
        for (kind, unit, per, is_mean, rank), own in zip(self.forms, rates, strict=True):
            job.ranks.add(rank)
            job.add_steps((kind.tool, unit, per, is_mean), rank, own.tolist())
        job.last_line = int(self.numbers["line"][-1])


def _ns(seconds: "pd.Series[float] | None") -> "pd.Series[float] | int":
    """Times of more than 2**62 ns are that: the reader makes no row of them."""
    return MISSING if seconds is None else (seconds * 1e9).round().clip(upper=2.0**62)
