"""Rules on where the time of a step goes: late ranks, input, imbalance, inflation, sizes."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.cell_setting import CellSetting, cell_setting
from hvdprof.analyze.evidence import Evidence, is_base
from hvdprof.analyze.finding import SMALLEST_COST, Finding, severity_of_cost
from hvdprof.analyze.finding_of_cell import (
    Cell,
    ceiling_share,
    cell_name,
    cell_place,
    cost_of,
    costly_terms,
    step_ns,
)
from hvdprof.analyze.job_steps import LAUNCH
from hvdprof.analyze.launches import rows_by_launch
from hvdprof.analyze.stragglers import UNATTRIBUTED
from hvdprof.analyze.uncertainty import NAN
from hvdprof.model.causes import (
    COMPUTE_INFLATION,
    NO_DATA,
    NO_JITTER,
    ON_TIME,
    TRANSIENT_IMBALANCE,
)
from hvdprof.model.cell_key import short_name

SHARE_OF_LAUNCHES = 0.5

_SLOW_COMPUTE = (
    "look at that host's clocks, temperature and other processes ({tools}), and at uneven work "
    "per sample"
)
_TOOLS_OF_GPUS = "nvidia-smi -q -d CLOCK,PERFORMANCE; top"
_TOOLS_OF_CPUS = "top; grep MHz /proc/cpuinfo"

_REMEDY_OF_PHASE = {
    "data": "give that rank's input more workers or faster storage (num_workers=, "
    "prefetch_factor=; .prefetch() of tf.data), and check that all ranks read equal shards",
    "forward": _SLOW_COMPUTE,
    "backward": _SLOW_COMPUTE,
    "optimizer": "do the same work on every rank after optimizer.step(): checkpoints and logging "
    "on one rank delay all",
    "pause": "look for what this rank alone does between steps: logging, checkpoints, evaluation, "
    "garbage collection (gc.freeze())",
    UNATTRIBUTED: "no single phase explains it: look at that host's load, clocks and memory",
}


def late_rank(evidence: Evidence) -> Iterator[Finding]:
    """A rank that is persistently or now and then late, in most launches of a cell."""
    for cell, launches in _by_cell(evidence, evidence.table("stragglers")):
        num_launches = launches[["pass_id", "segment"]].drop_duplicates().shape[0]
        named = launches[launches["pattern"].isin(["persistent", "transient"])]
        for rank, rows in named.groupby("rank"):
            # A rank late in one launch out of three may have been placed badly there.
            if len(rows) < max(1.0, SHARE_OF_LAUNCHES * num_launches):
                continue
            pattern = str(rows["pattern"].mode().iloc[0])
            phases = rows["phase"].value_counts()
            phase = str(phases.index[0])
            # What comes back is a mean over launches; one in which it was on time counts too.
            costs = launches.loc[launches["rank"] == rank, ["cost_share", "cost_ns"]]
            cost, cost_ns = (float(total) / num_launches for total in costs.sum())
            often = f"in {units.percent(float(rows['share_late'].mean()), 0)} of the steps"
            late = units.milliseconds(float(rows["lateness_when_late_ns"].mean()))
            where = "in no single phase" if phase == UNATTRIBUTED else f"in its {phase} phase"
            if phase == "pause":
                where = "outside every phase"
            of_phase = rows.loc[rows["phase"] == phase, "phase_share"]
            explained = _explained(phase, float(of_phase.mean()))
            on_gpus = cell_setting(evidence.run, cell).on_gpus
            yield Finding(
                f"late-rank-{pattern}",
                severity_of_cost(cost),
                f"rank {rank}",
                f"{cell_place(cell)}: rank {rank}{_host(evidence, rows, int(str(rank)))} is late "
                f"{often} by {late}, which it loses {where}; the others wait for it.",
                _REMEDY_OF_PHASE[phase].format(tools=_TOOLS_OF_GPUS if on_gpus else _TOOLS_OF_CPUS),
                "likely" if len(rows) > 1 else "possible",
                evidence=f"last in {units.percent(float(rows['share_last'].mean()), 0)} of the "
                f"steps, in {len(rows)} of {num_launches} launches; {explained}",
                **cost_of(
                    cell,
                    cost,
                    cost_ns,
                    ceiling_share(evidence, cell, ON_TIME, rank),
                ),
            )


def _explained(phase: str, share: float) -> str:
    """How much of the lateness a phase is; beyond all of it other phases make up for some."""
    which = "its largest phase" if phase == UNATTRIBUTED else phase
    if share > 1:
        more = units.percent(share - 1, 0)
        return f"{which} explains all of the lateness, and {more} more that other phases make up"
    return f"{which} explains {units.percent(share, 0)} of the lateness"


def late_by_turns(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that are slow by turns, none more than the others but for one that is called late."""
    with_late_rank = {(one.model, one.np, one.engine) for one in late_rank(evidence)}
    for cell, share, cost_ns in costly_terms(evidence, TRANSIENT_IMBALANCE):
        crowd = cell_setting(evidence.run, cell).crowd
        has_late_rank = (cell["model"], cell["np"], cell["engine"]) in with_late_rank
        others = "the rank called late has its part in it" if has_late_rank else "none stands out"
        yield Finding(
            "late-by-turns",
            severity_of_cost(share),
            cell_name(cell),
            f"{cell_place(cell)}: now one rank is the slowest, now another, which costs "
            f"{units.percent(share)} of the step; {others}.",
            ("end the other processes and measure again; else " if crowd else "")
            + "even out the work per sample (bucket by length, equal shards), pin ranks to cores, "
            "and look for jitter: other processes, power capping, shared storage",
            "possible" if crowd else "likely",
            evidence=crowd,
            **cost_of(cell, share, cost_ns, ceiling_share(evidence, cell, NO_JITTER)),
        )


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
        yield Finding(
            "compute-inflation",
            severity_of_cost(share),
            cell_name(cell),
            f"{cell_place(cell)}: the ranks' own work takes {units.milliseconds(cost_ns)} "
            f"longer than in the baseline, {units.percent(share)} of the step.",
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


def _by_cell(evidence: Evidence, table: pd.DataFrame) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """The rows of the launches that speak for each cell without toggles."""
    joined = table.astype(dict.fromkeys(LAUNCH, str)).merge(evidence.measured(), on=LAUNCH)
    for cell in evidence.cells():
        if is_base(cell):
            own = (joined["model"] == cell["model"]) & (joined["size"] == cell["np"])
            yield cell, joined[own & (joined["engine"] == cell["engine"])]


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


def _host(evidence: Evidence, rows: pd.DataFrame, rank: int) -> str:
    ranks = evidence.run.ranks
    own = ranks[(ranks["rank"] == rank) & ranks["pass_id"].astype(str).isin(set(rows["pass_id"]))]
    hosts = own["hostname"].astype(str).drop_duplicates()
    return f" ({hosts.iloc[0]})" if len(hosts) == 1 and hosts.iloc[0] else ""
