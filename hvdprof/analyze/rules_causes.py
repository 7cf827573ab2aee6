"""Rules on where the time of a step goes: late ranks, input, transfer, imbalance, inflation."""

import itertools
from collections.abc import Iterator
from typing import Any

import pandas as pd

from hvdprof import units
from hvdprof.analyze.evidence import Evidence, is_base
from hvdprof.analyze.finding import SMALLEST_COST, Finding, severity_of_cost
from hvdprof.analyze.stragglers import UNATTRIBUTED
from hvdprof.analyze.uncertainty import NAN
from hvdprof.model.causes import (
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    IDEAL_NETWORK,
    NO_DATA,
    NO_JITTER,
    ON_TIME,
    TRANSIENT_IMBALANCE,
)
from hvdprof.model.cell_key import CELL_KEY, place_name, short_name, without_toggles
from hvdprof.rundir.plan import DDP_ENGINE

CYCLES_OF_A_SHORT_STEP = 8
DEFAULT_CYCLE_MS = 1.0
SHARE_OF_LAUNCHES = 0.5

_REMEDY_OF_PHASE = {
    "data": "give that rank's input more workers or faster storage (num_workers=, "
    "prefetch_factor=; .prefetch() of tf.data), and check that all ranks read equal shards",
    "forward": "look at that host's clocks, temperature and other processes (nvidia-smi -q -d "
    "CLOCK,PERFORMANCE; top), and at uneven work per sample",
    "backward": "look at that host's clocks, temperature and other processes (nvidia-smi -q -d "
    "CLOCK,PERFORMANCE; top), and at uneven work per sample",
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
            cost = float(rows["cost_share"].mean())
            often = f"in {units.percent(float(rows['share_late'].mean()), 0)} of the steps"
            late = units.milliseconds(float(rows["lateness_when_late_ns"].mean()))
            where = "in no single phase" if phase == UNATTRIBUTED else f"in its {phase} phase"
            if phase == "pause":
                where = "outside every phase"
            largest = "its largest phase" if phase == UNATTRIBUTED else phase
            yield Finding(
                f"late-rank-{pattern}",
                severity_of_cost(cost),
                f"rank {rank}",
                f"{_place(cell)}: rank {rank}{_host(evidence, rows, int(str(rank)))} is late "
                f"{often} by {late}, which it loses {where}; the others wait for it.",
                _REMEDY_OF_PHASE[phase],
                "likely" if len(rows) > 1 else "possible",
                evidence=f"last in {units.percent(float(rows['share_last'].mean()), 0)} of the "
                f"steps, in {len(rows)} of {num_launches} launches; {largest} explains "
                f"{units.percent(float(rows['phase_share'].mean()), 0)} of the lateness",
                **_cost(
                    cell,
                    cost,
                    float(rows["cost_ns"].mean()),
                    _ceiling(evidence, cell, ON_TIME, rank),
                ),
            )


def late_by_turns(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that are slow by turns, none more than the others."""
    for cell, share, cost_ns in _terms(evidence, TRANSIENT_IMBALANCE):
        yield Finding(
            "late-by-turns",
            severity_of_cost(share),
            _name(cell),
            f"{_place(cell)}: in every step another rank is the slowest, which costs "
            f"{units.percent(share)} of the step; no rank stands out.",
            "even out the work per sample (bucket by length, equal shards), pin ranks to cores, "
            "and look for jitter: other processes, power capping, shared storage",
            "likely",
            **_cost(cell, share, cost_ns, _ceiling(evidence, cell, NO_JITTER)),
        )


def input_bound(evidence: Evidence) -> Iterator[Finding]:
    """Every rank waits for data."""
    for cell in evidence.cells():
        share = _part_share(evidence, cell, "data")
        if is_base(cell) and share >= SMALLEST_COST:
            yield Finding(
                "input-bound",
                severity_of_cost(share),
                _name(cell),
                f"{_place(cell)}: every rank spends {units.percent(share)} of its step on getting "
                "data.",
                "more data workers (num_workers=), prefetch_factor=, pin_memory=True; with tf.data "
                ".map(..., num_parallel_calls=) and .prefetch(); or faster storage",
                "certain",
                **_cost(cell, share, share * _step_ns(cell), _ceiling(evidence, cell, NO_DATA)),
            )


def exposed_transfer(evidence: Evidence) -> Iterator[Finding]:
    """Transfers that no computation covers."""
    for cell, share, cost_ns in _terms(evidence, EXPOSED_TRANSFER):
        identity, why, remedy = _why_exposed(evidence, cell, cost_ns)
        yield Finding(
            identity,
            severity_of_cost(share),
            _name(cell),
            f"{_place(cell)}: all ranks stand still for {units.percent(share)} of the step after "
            f"the last one has arrived; {why}.",
            remedy,
            "likely",
            **_cost(cell, share, cost_ns, _ceiling(evidence, cell, IDEAL_NETWORK)),
        )


def _why_exposed(evidence: Evidence, cell: dict[str, Any], cost_ns: float) -> tuple[str, str, str]:
    """The rule's name, the likely reason, and the remedy for transfers that are not covered."""
    if cell["engine"] == DDP_ENGINE:
        return (
            "exposed-transfer",
            "backward does not cover the last buckets",
            "send less (register_comm_hook(None, default_hooks.fp16_compress_hook) where the "
            "network is slow), send less often (no_sync(), larger batch), or other buckets "
            "(bucket_cap_mb=); compare by hvdprof bench --engine ddp --fusion-threshold-mb",
        )
    cycle_ns = _cycle_ms(evidence) * 1e6
    short_ns = CYCLES_OF_A_SHORT_STEP * cycle_ns
    if cost_ns <= short_ns and _step_ns(cell) <= 10 * short_ns:
        return (
            "cycle-bound",
            f"a step of {units.milliseconds(_step_ns(cell))} is short against Horovod's cycle of "
            f"{units.milliseconds(cycle_ns)}",
            "HOROVOD_CYCLE_TIME=0.1 (milliseconds), or more work a step: a larger batch, "
            "backward_passes_per_step=",
        )
    if evidence.controllers == {"gloo"}:
        return (
            "gloo-transfer",
            "Gloo reduces on the ranks' own cores",
            "try MPI, which overlaps better on CPUs: hvdprof bench --controller mpi; then "
            "--fp16-allreduce, and a faster network",
        )
    return (
        "exposed-transfer",
        "backward does not cover it",
        "send less (--fp16-allreduce where the network is slow), send less often "
        "(backward_passes_per_step=, larger batch), or mend the network, which hvdprof analyze "
        "judges by NCCL's log and nccl-tests",
    )


def compute_inflation(evidence: Evidence) -> Iterator[Finding]:
    """The ranks' own work takes longer than in the baseline."""
    for cell, share, cost_ns in _terms(evidence, COMPUTE_INFLATION):
        yield Finding(
            "compute-inflation",
            severity_of_cost(share),
            _name(cell),
            f"{_place(cell)}: the ranks' own work takes {units.milliseconds(cost_ns)} longer than "
            f"in the baseline, {units.percent(share)} of the step.",
            "on CPUs give every rank cores of its own and OMP_NUM_THREADS to match; on GPUs "
            "compare clocks and power (nvidia-smi -q -d CLOCK,POWER) and NCCL's share of the SMs",
            "likely",
            **_cost(cell, share, cost_ns, NAN),
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
            yield Finding(
                "size-cliff",
                severity_of_cost(lost),
                _name(cell),
                f"{_place(cell)}: efficiency falls to {units.percent(after['efficiency'])}, from "
                f"{units.percent(before['efficiency'])} on {before['np']} ranks.",
                "see what changes at that size: a second host, another socket or switch; compare "
                "hvdprof bench --hosts on one and on two hosts",
                "possible",
                **_cost(cell, lost, lost * _step_ns(cell), NAN),
            )


def _terms(evidence: Evidence, term: str) -> Iterator[tuple[dict[str, Any], float, float]]:
    """Cells without toggles in which a term costs enough, beyond its uncertainty."""
    rows = evidence.table("waterfall")
    of_term = rows[rows["term"] == term]
    for cell in evidence.cells():
        if not is_base(cell) or cell["np"] < 2:
            continue
        for row in _own(of_term, cell).to_dict("records"):
            # Without an interval, from one launch, the term is told all the same; trust warns.
            if row["share"] >= SMALLEST_COST and not row["share_low"] <= 0:
                yield cell, float(row["share"]), float(row["time_ns"])


def _by_cell(
    evidence: Evidence, table: pd.DataFrame
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The rows of the throughput launches of each cell without toggles."""
    segments = evidence.run.segments
    base = segments[(segments["mode"] == "throughput").to_numpy() & without_toggles(segments)]
    names = base[["pass_id", "segment", "model", "size", "engine"]].astype(
        {"pass_id": str, "segment": str, "model": str, "size": int, "engine": str}
    )
    joined = table.astype({"pass_id": str, "segment": str}).merge(names, on=["pass_id", "segment"])
    for cell in evidence.cells():
        if is_base(cell):
            own = (joined["model"] == cell["model"]) & (joined["size"] == cell["np"])
            yield cell, joined[own & (joined["engine"] == cell["engine"])]


def _part_share(evidence: Evidence, cell: dict[str, Any], part: str) -> float:
    """The share of a part in the steps of the throughput launches of a cell."""
    steps = evidence.run.steps
    counted = steps.loc[~steps["warmup"], ["pass_id", "segment", "dur_ns", f"{part}_ns"]]
    for own, rows in _by_cell(evidence, counted):
        # By name: as a whole, two rows with a missing number are never equal.
        if _name(own) == _name(cell) and len(rows):
            return float(rows[f"{part}_ns"].sum() / rows["dur_ns"].sum())
    return 0.0


def _ceiling(
    evidence: Evidence, cell: dict[str, Any], remedy: str, rank: object | None = None
) -> float:
    rows = _own(evidence.table("ceilings"), cell)
    rows = rows[rows["remedy"] == remedy]
    if rank is not None:
        rows = rows[(rows["rank"] == rank).fillna(False)]
    return float(rows["saved_share"].iloc[0]) if len(rows) else NAN


def _cost(cell: dict[str, Any], share: float, cost_ns: float, ceiling: float) -> dict[str, Any]:
    return {
        "model": str(cell["model"]),
        "np": int(cell["np"]),
        "engine": str(cell["engine"]),
        "cost_ns": cost_ns,
        "cost_share": share,
        "ceiling_share": ceiling,
    }


def _step_ns(cell: dict[str, Any]) -> float:
    return float(cell["step_time_median_ns"])


def _cycle_ms(evidence: Evidence) -> float:
    text = evidence.setting("HOROVOD_CYCLE_TIME")
    try:
        return float(text) if text else DEFAULT_CYCLE_MS
    except ValueError:
        return DEFAULT_CYCLE_MS


def _host(evidence: Evidence, rows: pd.DataFrame, rank: int) -> str:
    ranks = evidence.run.ranks
    own = ranks[(ranks["rank"] == rank) & ranks["pass_id"].astype(str).isin(set(rows["pass_id"]))]
    hosts = own["hostname"].astype(str).drop_duplicates()
    return f" ({hosts.iloc[0]})" if len(hosts) == 1 and hosts.iloc[0] else ""


def _own(rows: pd.DataFrame, cell: dict[str, Any]) -> pd.DataFrame:
    """The rows of a table of cells that are of this cell."""
    for name in CELL_KEY:
        rows = rows[rows[name] == cell[name]]
    return rows


def _name(cell: dict[str, Any]) -> str:
    return short_name(cell["model"], cell["np"], cell["engine"])


def _place(cell: dict[str, Any]) -> str:
    return place_name(cell["model"], cell["np"], cell["engine"])
