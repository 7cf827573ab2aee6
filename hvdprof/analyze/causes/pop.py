"""The efficiencies of the POP methodology."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.scaling.efficiency import in_order, samples_per_rank
from hvdprof.analyze.steps.baseline import baselines
from hvdprof.analyze.steps.cells import Cell, CellTime, throughput_cells
from hvdprof.analyze.steps.launch_facts import Facts
from hvdprof.analyze.steps.replay import on_ideal_network
from hvdprof.analyze.steps.step_work import StepWork
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.waterfall_tables import POP


@dataclass(frozen=True, slots=True)
class WorkShares:
    """Own work in one launch, each as a share of its mean step time.

    ``mean_own`` is the mean own work over ranks and steps; ``slowest_rank`` the largest mean own
    work of a rank; ``ideal`` the replay on an ideal network.
    """

    mean_own: float
    slowest_rank: float
    ideal: float


def work_shares(work: StepWork) -> WorkShares:
    """The shares of one launch."""
    own, step_time = work.own, work.step_times.mean()
    return WorkShares(
        mean_own=float(own.mean() / step_time),
        slowest_rank=float(own.mean(axis=0).max() / step_time),
        ideal=float(on_ideal_network(work).mean() / step_time),
    )


def pop(
    times: Mapping[Cell, CellTime], works: Mapping[LaunchKey, StepWork], facts: Facts
) -> pd.DataFrame:
    """POP of every cell in throughput mode but the baselines.

    ``efficiency = compscal * lb * sere * te / baseline_pe``, exactly (POP's global efficiency
    against a baseline that is itself not perfect). Of ranks that differ by noise alone, one has the
    largest mean too, so ``lb`` is slightly below 1 even there.
    """
    rows: list[dict[str, object]] = []
    for time, baseline, shares, base_shares in _compared(times, works):
        work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
        ratio = work * math.exp(baseline.log_step_time.value - time.log_step_time.value)
        own, fullest, ideal = (
            float(np.mean([getattr(share, name) for share in shares]))
            for name in ("mean_own", "slowest_rank", "ideal")
        )
        base_own = float(np.mean([base_share.mean_own for base_share in base_shares]))
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


def _shares_of(time: CellTime, works: Mapping[LaunchKey, StepWork]) -> list[WorkShares]:
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
        shares, base_shares = _shares_of(time, works), _shares_of(baseline, works)
        if shares and base_shares:
            compared.append((time, baseline, shares, base_shares))
    return compared
