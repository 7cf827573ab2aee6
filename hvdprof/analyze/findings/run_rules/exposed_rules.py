"""The rule on transfers that nothing covers: what is likely behind them depends on the place."""

from collections.abc import Iterator
from dataclasses import dataclass

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import (
    Cell,
    ceiling_share,
    cell_name,
    cell_place,
    cost_of,
    costly_terms,
    step_ns,
)
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.analyze.steps.cell_setting import CellSetting, cell_setting
from hvdprof.model.causes import EXPOSED_TRANSFER, IDEAL_NETWORK
from hvdprof.model.tables.net_tables import NET_USE
from hvdprof.rundir.plan import DDP_ENGINE

CYCLES_OF_A_SHORT_STEP = 8
DEFAULT_CYCLE_MS = 1.0
NETWORK_SHARE = 0.7
"""Transfers that reach as much of what the network gives wait for the network."""

_SEND_LESS = "send less (compression=hvd.Compression.fp16; hvdprof bench --fp16-allreduce tells)"
_SEND_LESS_OFTEN = "send less often (backward_passes_per_step=, larger batch)"


@dataclass(frozen=True, slots=True)
class Likely:
    """What is likely behind exposed transfers: the rule's name, why, what to do, and evidence."""

    id: str
    why: str
    remedy: str
    evidence: str = ""


def exposed_transfer(evidence: Evidence) -> Iterator[Finding]:
    """Transfers that no computation covers."""
    for cell, share, cost_ns in costly_terms(evidence, EXPOSED_TRANSFER):
        likely = _likely(evidence, cell, cost_ns)
        yield Finding(
            likely.id,
            severity_of_cost(share),
            cell_name(cell),
            f"{cell_place(cell)}: all ranks stand still for {units.percent(share)} of the step "
            f"after the last one has arrived; {likely.why}.",
            likely.remedy,
            "likely",
            evidence=likely.evidence,
            **cost_of(cell, share, cost_ns, ceiling_share(evidence, cell, IDEAL_NETWORK)),
        )


def _likely(evidence: Evidence, cell: Cell, cost_ns: float) -> Likely:
    setting = cell_setting(evidence.run, cell)
    if cell["engine"] == DDP_ENGINE:
        return _under_ddp(setting)
    cycle_ns = _cycle_ms(evidence) * 1e6
    short_ns = CYCLES_OF_A_SHORT_STEP * cycle_ns
    if cost_ns <= short_ns and step_ns(cell) <= 10 * short_ns:
        return Likely(
            "cycle-bound",
            f"a step of {units.milliseconds(step_ns(cell))} is short against Horovod's cycle of "
            f"{units.milliseconds(cycle_ns)}",
            "HOROVOD_CYCLE_TIME=0.1 (milliseconds), or more work a step: a larger batch, "
            "backward_passes_per_step=",
        )
    if setting.num_hosts > 1:
        return _over_network(evidence, cell, setting)
    if setting.on_gpus:
        return Likely(
            "exposed-transfer",
            "backward does not cover it, between the GPUs of one host",
            f"{_SEND_LESS_OFTEN}, and see by what the GPUs are connected: "
            "NCCL_DEBUG=INFO in a run, whose log hvdprof analyze judges",
        )
    return _on_cores(setting)


def _under_ddp(setting: CellSetting) -> Likely:
    buckets = (
        "or other buckets (bucket_cap_mb=); compare by hvdprof bench --engine ddp "
        "--fusion-threshold-mb"
    )
    often = "send less often (no_sync(), larger batch)"
    less = "send less (register_comm_hook(None, default_hooks.fp16_compress_hook)), "
    return Likely(
        "exposed-transfer",
        "backward does not cover the last buckets",
        # On one host of CPUs there is no wire that fewer bytes would relieve.
        f"{less if setting.num_hosts > 1 or setting.on_gpus else ''}{often}, {buckets}",
    )


def _over_network(evidence: Evidence, cell: Cell, setting: CellSetting) -> Likely:
    rows = evidence.table(NET_USE.name)
    known = rows[(rows["np"] == cell["np"]) & (rows["reason"] == "")].to_dict("records")
    if not known:
        log = "; NCCL_DEBUG=INFO says what NCCL chose" if setting.on_gpus else ""
        return Likely(
            "exposed-transfer",
            f"backward does not cover what goes between {setting.num_hosts} hosts",
            f"{_SEND_LESS}, {_SEND_LESS_OFTEN}; hvdprof net --hosts measures what "
            f"the network gives{log}",
        )
    row = known[0]
    share = units.interval_of_unit(row["share"], row["share_low"], row["share_high"], "ratio")
    reached, allowed = (
        units.of_unit(1000 * float(row[name]), "MB/s")
        for name in ("busbw_gb_per_s", "allowed_gb_per_s")
    )
    told = (
        f"large allreduces reach {reached} of bus bandwidth, {share} of the {allowed} that the "
        f"same {setting.num_hosts} hosts gave before the run"
    )
    if row["share"] >= NETWORK_SHARE:
        return Likely(
            "network-bound",
            "the network between the hosts is what limits it",
            f"{_SEND_LESS}, {_SEND_LESS_OFTEN}, or get a faster network",
            told,
        )
    cores = (
        "the transfers wait for something else than the wire: GPU kernels and copies"
        if setting.on_gpus
        else "the ranks' cores, which compute meanwhile, take part in every transfer"
    )
    return Likely(
        "below-network",
        f"the network would allow more: {cores}",
        "leave cores to Horovod's threads (fewer threads or ranks a host), "
        "try the other controller (--controller mpi or gloo), and "
        f"{_SEND_LESS_OFTEN}; a faster network alone brings little",
        told,
    )


def _on_cores(setting: CellSetting) -> Likely:
    cores = (
        "by the ranks' own cores, which all compute"
        if setting.every_core_computes
        else "by the cores of this host"
    )
    less = (
        "leave cores to Horovod's threads: fewer threads a rank (OMP_NUM_THREADS) or fewer ranks; "
        if setting.every_core_computes
        else ""
    )
    no_wire = "on one host no faster network helps"
    if setting.controller == "gloo":
        return Likely(
            "gloo-transfer",
            f"on one host Gloo reduces {cores}, over its loopback",
            f"try MPI, which goes through shared memory: --controller mpi; {less}"
            f"{_SEND_LESS_OFTEN}; {no_wire}",
            setting.crowd,
        )
    if setting.controller != "mpi":
        return Likely(
            "exposed-transfer",
            f"on one host it is reduced {cores}",
            f"{less}{_SEND_LESS_OFTEN}; {no_wire}",
            setting.crowd,
        )
    return Likely(
        "shared-memory-transfer",
        f"on one host MPI reduces {cores}, through shared memory",
        f"{less}{_SEND_LESS_OFTEN}; {no_wire}, and fp16 may cost more by its conversions than "
        "it saves (hvdprof bench --fp16-allreduce tells)",
        setting.crowd,
    )


def _cycle_ms(evidence: Evidence) -> float:
    text = evidence.setting("HOROVOD_CYCLE_TIME")
    try:
        return float(text) if text else DEFAULT_CYCLE_MS
    except ValueError:
        return DEFAULT_CYCLE_MS
