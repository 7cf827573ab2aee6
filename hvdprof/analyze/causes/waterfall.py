"""The waterfall from the baseline to a cell: additional step time, by cause."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.scaling.efficiency import Facts, in_order, samples_per_rank
from hvdprof.analyze.stats.launch_spread import Spread, less, spread
from hvdprof.analyze.stats.launch_spread import times as scaled
from hvdprof.analyze.stats.uncertainty import LogEstimate, difference
from hvdprof.analyze.steps.baseline import baselines
from hvdprof.analyze.steps.cells import Cell, CellTime, throughput_cells
from hvdprof.analyze.steps.replay import on_ideal_network
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.causes import (
    BASELINE_CREDIT,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    PERSISTENT_IMBALANCE,
    RESIDUAL_TERM,
    SERIALIZATION,
    TRANSIENT_IMBALANCE,
)
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.waterfall_tables import POP, WATERFALL

ROUNDING = 1e-9
"""Shares of a step below this are rounding errors of floating-point sums."""


@dataclass(frozen=True, slots=True)
class WorkShares:
    """Own work in one launch, each as a share of its mean step time.

    ``mean_own`` is the mean own work over ranks and steps; ``slowest_rank`` the largest mean own
    work of a rank; ``slowest_rank_crossval`` the mean own work of the rank that was slowest in the
    other half of the steps; ``slowest_each_step`` the mean over steps of the largest own work in
    each; ``ideal`` the replay on an ideal network.
    """

    mean_own: float
    slowest_rank: float
    slowest_rank_crossval: float
    slowest_each_step: float
    ideal: float


def work_shares(work: StepWork) -> WorkShares:
    """The shares of one launch.

    Of ranks that differ by noise alone, one has the largest mean too, so ``slowest_rank`` exceeds
    ``mean_own`` by noise. ``slowest_rank_crossval`` does not: the rank is chosen in one half of the
    steps and measured in the other (two-fold, halves in time because steps are correlated).
    """
    own, step_time = work.own, work.step_times.mean()
    half = len(own) // 2
    if half and own.shape[1] > 1:
        first, second = own[:half].mean(axis=0), own[half:].mean(axis=0)
        weights = np.array([half, len(own) - half])
        held = np.average([first[second.argmax()], second[first.argmax()]], weights=weights)
    else:
        held = own.mean()
    return WorkShares(
        mean_own=float(own.mean() / step_time),
        slowest_rank=float(own.mean(axis=0).max() / step_time),
        slowest_rank_crossval=float(held / step_time),
        slowest_each_step=float(own.max(axis=1).mean() / step_time),
        ideal=float(on_ideal_network(work).mean() / step_time),
    )


def waterfall(
    times: Mapping[Cell, CellTime], works: Mapping[LaunchKey, StepWork], facts: Facts
) -> pd.DataFrame:
    """WATERFALL of every cell in throughput mode but the baselines.

    With T the step time, C the own work of a rank in a step, 1 the baseline and w the samples per
    rank and step divided by those of the baseline:

        compute inflation       mean C - w * C_1
        persistent imbalance    mean C of the slowest rank - mean C
        transient imbalance     mean over steps of the largest C - mean C of the slowest rank
        serialization           T on an ideal network - mean over steps of the largest C
        exposed transfer        T - T on an ideal network
        baseline credit         - w * (T_1 - C_1)

    The terms telescope to ``T - w * T_1``; ``residual`` is the rounding error. Load
    balance, serialization and transfer follow POP (Wagner et al. 2019), which folds transient
    imbalance into serialization. Every term is a mean over launches of its share in the launch's
    step times the step time of the cell.
    """
    rows: list[dict[str, object]] = []
    for time, baseline, shares, base_shares in _compared(times, works):
        step_ns, base_ns = _step_time_ns(time), _step_time_ns(baseline)
        work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
        ratio = difference(baseline.log_step_time, time.log_step_time)
        terms = _terms(shares, base_shares, work * base_ns / step_ns, ratio)
        whole = 1.0 - work * base_ns / step_ns
        rest = whole - sum(term.value for term in terms.values())
        # A sum of floats that should be 0 would be shown as -0.0 %.
        rest = 0.0 if abs(rest) < ROUNDING else rest
        terms[RESIDUAL_TERM] = Spread(rest, math.nan, 0.0)
        rows += [_row(time.cell, name, term, step_ns) for name, term in terms.items()]
    return WATERFALL.frame(rows)


def pop(
    times: Mapping[Cell, CellTime], works: Mapping[LaunchKey, StepWork], facts: Facts
) -> pd.DataFrame:
    """POP of every cell in throughput mode but the baselines.

    ``efficiency = compscal * lb * sere * te / baseline_pe``, exactly (POP's global efficiency
    against a baseline that is itself not perfect). Here ``lb`` takes the rank with the largest mean
    as POP does, without the waterfall's cross-validation.
    """
    rows: list[dict[str, object]] = []
    for time, baseline, shares, base_shares in _compared(times, works):
        work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
        ratio = work * _step_time_ns(baseline) / _step_time_ns(time)
        own, fullest, ideal = (
            float(np.mean([getattr(one, name) for one in shares]))
            for name in ("mean_own", "slowest_rank", "ideal")
        )
        base_own = float(np.mean([one.mean_own for one in base_shares]))
        factors = {
            "compscal": ratio * base_own / own,
            "lb": own / fullest,
            "sere": fullest / ideal,
            "te": ideal,
        }
        rows.append(
            {
                **time.cell.key,
                **factors,
                "pe": own,
                "baseline_pe": base_own,
                "efficiency": ratio,
                "identity_error": math.prod(factors.values()) / base_own - ratio,
            }
        )
    return POP.frame(rows)


def shares_of(time: CellTime, works: Mapping[LaunchKey, StepWork]) -> list[WorkShares]:
    """The shares of each launch of a cell that holds steps which all ranks recorded.

    Launches whose steps have no phases are omitted: their own work is unknown.
    """
    known = [works[key] for key in time.launches if key in works]
    return [work_shares(work) for work in known if work.own.any()]


def _compared(
    times: Mapping[Cell, CellTime], works: Mapping[LaunchKey, StepWork]
) -> list[tuple[CellTime, CellTime, list[WorkShares], list[WorkShares]]]:
    cells = throughput_cells(times)
    baseline_of = baselines(cells)
    compared = []
    for time in in_order(cells):
        baseline = baseline_of.get(time.cell.model)
        if baseline is None or baseline.cell == time.cell or time.cell.is_plain_torch:
            continue
        shares, base_shares = shares_of(time, works), shares_of(baseline, works)
        if shares and base_shares:
            compared.append((time, baseline, shares, base_shares))
    return compared


def _terms(
    shares: list[WorkShares],
    base_shares: list[WorkShares],
    base_time: float,
    ratio: LogEstimate,
) -> dict[str, Spread]:
    """The terms as shares of the step; ``base_time`` is w * T_1 by T, ``ratio`` its logarithm."""
    base_own = _with_error_of(ratio, base_time, spread([one.mean_own for one in base_shares]))
    base_rest = _with_error_of(
        ratio, base_time, spread([one.mean_own - 1.0 for one in base_shares])
    )
    return {
        COMPUTE_INFLATION: less(spread([one.mean_own for one in shares]), base_own),
        PERSISTENT_IMBALANCE: spread([one.slowest_rank_crossval - one.mean_own for one in shares]),
        TRANSIENT_IMBALANCE: spread(
            [one.slowest_each_step - one.slowest_rank_crossval for one in shares]
        ),
        SERIALIZATION: spread([one.ideal - one.slowest_each_step for one in shares]),
        EXPOSED_TRANSFER: spread([1.0 - one.ideal for one in shares]),
        BASELINE_CREDIT: base_rest,
    }


def _with_error_of(ratio: LogEstimate, base_time: float, share: Spread) -> Spread:
    """A share of the baseline's step as a share of the cell's, whose ratio is not exact either."""
    exact = scaled(base_time, share)
    variance = exact.variance + (exact.value * ratio.error) ** 2
    return Spread(exact.value, variance, min(exact.degrees, ratio.degrees))


def _row(cell: Cell, name: str, term: Spread, step_ns: float) -> dict[str, object]:
    share = term.interval()
    return {
        **cell.key,
        "term": name,
        "time_ns": share.value * step_ns,
        "time_low_ns": share.low * step_ns,
        "time_high_ns": share.high * step_ns,
        "share": share.value,
        "share_low": share.low,
        "share_high": share.high,
    }


def _step_time_ns(time: CellTime) -> float:
    return math.exp(time.log_step_time.value)
