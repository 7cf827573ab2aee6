"""Rules on where the time of a step goes: input, inflation, sizes; late ranks have their own."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import (
    ceiling_share,
    cell_name,
    cell_place,
    cost_of,
    costly_terms,
    step_ns,
)
from hvdprof.analyze.findings.evidence import Evidence, is_base
from hvdprof.analyze.findings.finding import SMALLEST_COST, Finding, severity_of_cost
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cell_setting import CellSetting, cell_setting
from hvdprof.analyze.steps.job_steps import LAUNCH
from hvdprof.analyze.steps.launches import rows_by_launch
from hvdprof.model.causes import COMPUTE_INFLATION, NO_DATA
from hvdprof.model.cell_key import keeps_batches, short_name


def input_bound(evidence: Evidence) -> Iterator[Finding]:
    """Every rank waits for data, also the one that waits least."""
    shares = _least_shares(evidence, "data")
    for cell in evidence.cells():
        # By name: as a whole, two rows with a missing number are never equal.
        share = shares.get(cell_name(cell), 0.0)
        if is_base(cell) and share >= SMALLEST_COST:
            pinned = "pin_memory=True" if cell_setting(evidence.run, cell).on_gpus else ""
            whose = "every rank spends at least" if cell["np"] > 1 else "the rank spends"
            yield Finding(
                "input-bound",
                severity_of_cost(share),
                cell_name(cell),
                f"{cell_place(cell)}: {whose} {units.percent(share)} of its step on getting data.",
                f"more data workers (num_workers=), prefetch_factor={', ' if pinned else ''}"
                f"{pinned}; with tf.data .map(..., num_parallel_calls=) and .prefetch(); or faster "
                "storage",
                "certain",
                **cost_of(
                    cell, share, share * step_ns(cell), ceiling_share(evidence, cell, NO_DATA)
                ),
            )


def compute_inflation(evidence: Evidence) -> Iterator[Finding]:
    """The ranks' own work takes longer than in the baseline."""
    for cell, share, cost_ns in costly_terms(evidence, COMPUTE_INFLATION):
        setting = cell_setting(evidence.run, cell)
        is_weak = keeps_batches(evidence.table("scaling"), str(cell["model"]))
        reference = "in the baseline" if is_weak else "as many samples take in the baseline"
        yield Finding(
            "compute-inflation",
            severity_of_cost(share),
            cell_name(cell),
            f"{cell_place(cell)}: the ranks' own work takes {units.milliseconds(cost_ns)} "
            f"longer than {reference}, {units.percent(share)} of the step.",
            _why_slower(setting),
            "possible" if setting.crowd else "likely",
            evidence=setting.crowd,
            **cost_of(cell, share, cost_ns, NAN),
        )


def _why_slower(setting: CellSetting) -> str:
    """What to do about own work that takes longer, by where the ranks ran."""
    if setting.crowd:
        return "end the other processes, or take a machine of your own, and measure again"
    if setting.on_gpus:
        return (
            "compare clocks and power with those of one rank (nvidia-smi -q -d CLOCK,POWER), and "
            "look at NCCL's share of the SMs"
        )
    if setting.every_core_computes:
        return (
            "every core computes, and the threads that communicate take their turns: fewer ranks "
            "or threads a host (OMP_NUM_THREADS) show whether it is that, or the memory bandwidth "
            "and caches that the ranks of a host share"
        )
    return (
        "give every rank cores of its own and OMP_NUM_THREADS to match; the ranks of a host also "
        "share its memory bandwidth and caches: compare as many ranks on more hosts"
    )


def size_cliff(evidence: Evidence) -> Iterator[Finding]:
    """Efficiency that falls far more from one size to the next than it did before."""
    scaling = pd.DataFrame([cell for cell in evidence.cells() if is_base(cell)])
    if scaling.empty:
        return
    for _, cells in scaling.sort_values("np").groupby(["model", "engine"], sort=False):
        rows = cells[cells["np"] > 0].to_dict("records")
        for before, after in itertools.pairwise(rows):
            lost = before["efficiency"] - after["efficiency"]
            if before["np"] < 2 or not (
                lost >= 0.1 and after["efficiency_high"] < before["efficiency_low"]
            ):
                continue
            cell = {str(name): value for name, value in after.items()}
            # Of the step, not of the baseline's: the time that the smaller size would have taken.
            share = lost / before["efficiency"]
            yield Finding(
                "size-cliff",
                severity_of_cost(share),
                cell_name(cell),
                f"{cell_place(cell)}: efficiency falls to {units.percent(after['efficiency'])}, "
                f"from {units.percent(before['efficiency'])} on {before['np']} ranks.",
                "see what changes at that size: a second host, another socket or switch; compare "
                "hvdprof bench --hosts on one and on two hosts",
                "possible",
                **cost_of(cell, share, share * step_ns(cell), NAN),
            )


def _least_shares(evidence: Evidence, part: str) -> dict[str, float]:
    """The share of a part in the steps of each cell without toggles, of the least rank."""
    steps = evidence.run.steps
    ranks, counted = steps["rank"].to_numpy(), ~steps["warmup"].to_numpy(dtype=bool)
    times, lengths = (steps[name].to_numpy(dtype=np.float64) for name in (f"{part}_ns", "dur_ns"))
    rows_of = dict(rows_by_launch(steps))
    shares = {}
    for _, launches in evidence.measured().groupby(["model", "size", "engine"]):
        keys = launches[LAUNCH].itertuples(index=False, name=None)
        rows = np.concatenate([rows_of.get(key, np.empty(0, dtype=np.intp)) for key in keys])
        rows = rows[counted[rows]]
        whole = np.bincount(ranks[rows], lengths[rows])
        own = np.bincount(ranks[rows], times[rows])[whole > 0] / whole[whole > 0]
        if len(own):
            first = launches.iloc[0]
            name = short_name(first["model"], int(first["size"]), str(first["engine"]))
            shares[name] = float(own.min())
    return shares
