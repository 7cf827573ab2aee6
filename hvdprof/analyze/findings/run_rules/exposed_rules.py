"""The rule on exposed communication: what is likely behind it depends on the place.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

import math
from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.findings.advice import (
    Advice,
    Likely,
    advice,
    in_turn,
    sentences,
    set_to,
)
from hvdprof.analyze.findings.cause_advice import is_crowded
from hvdprof.analyze.findings.cell_finding import (
    CostlyCause,
    cell_name,
    cell_place,
    costly_causes,
    step_ns,
)
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.analyze.findings.gpu_advice import NCCL, between_gpus, look_at_nccl
from hvdprof.analyze.findings.horovod_cycle import CYCLE_TIME, cycle_ms
from hvdprof.analyze.findings.run_rules.transfer_parts import (
    ONLY_NEGOTIATES,
    executed_share,
    negotiation,
    of_script,
    trace_differs,
)
from hvdprof.analyze.steps.cell_setting import CellSetting, cell_setting
from hvdprof.analyze.steps.measured_launches import full_command, is_light
from hvdprof.model.causes import EXPOSED_TRANSFER
from hvdprof.model.tables.sample_tables import NET_USE
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, DDP_ENGINE, FSDP_ENGINE

CYCLES_OF_A_SHORT_STEP = 20
"""In a step of more cycles of Horovod, the wait for one is below 5 % of the step."""

CYCLES_OF_A_WAIT = 4
"""What ranks wait beyond execution from the last arrival on is rarely more of them.

A tensor is submitted in one and answered in the next. A longer wait has another cause.
"""

NETWORK_SHARE = 0.7
"""Transfers that reach as much of what the network gives are limited by the network."""

_SEND_LESS = advice("use compression=hvd.Compression.fp16 to send less, and measure both")
_SEND_LESS_OFTEN = advice("set backward_passes_per_step= or a larger batch to send less often")
_NO_NETWORK_HELPS = Advice("On one host no faster network helps.")
_SHORT_CYCLE = set_to(
    f"{CYCLE_TIME}=0.1",
    more="Alternatively, do more work per step: a larger batch, or backward_passes_per_step=.",
    unit="milliseconds",
)
_MEASURE_NETWORK = advice(
    "run `hvdprof net --hosts` to measure what the network gives", command="hvdprof net --hosts"
)
_OTHER_CONTROLLER = Advice("Try the other controller (`--controller mpi` or `--controller gloo`).")
_FP16_COSTS = Advice("fp16 may cost more by its conversions than it saves.")
_BY_SHARED_MEMORY = advice("use `--controller mpi`, which reduces through shared memory")


def exposed_transfer(evidence: Evidence) -> Iterator[Finding]:
    """Transfers that no computation covers."""
    for term in costly_causes(evidence, EXPOSED_TRANSFER):
        cell = term.cell
        light = is_light(evidence.run)
        # DDP and FSDP2 negotiate nothing and have no timeline.
        of_torch = cell["engine"] in (DDP_ENGINE, *_OF_TORCH)
        likely = _of_windows(evidence) if light else _likely(evidence, term)
        on_cores = not cell_setting(evidence.run, cell).on_gpus
        unsure = light or trace_differs(term) or (on_cores and is_crowded(evidence, term))
        yield Finding(
            likely.id,
            severity_of_cost(term.share),
            cell_name(cell),
            likely.title,
            sentences(
                f"{cell_place(cell)}: exposed transfer takes {term.share_text} of the step "
                "after the last rank has arrived.",
                "" if light or of_torch else executed_share(term),
                likely.why,
                likely.evidence,
            ),
            likely.action,
            "possible" if unsure else "likely",
            **term.cost,
        )


def _of_windows(evidence: Evidence) -> Likely:
    """What is likely by means over windows, in which late steps of all ranks look like transfer."""
    command = full_command(evidence.run)
    return Likely(
        "exposed-transfer",
        "exposed transfer or jitter",
        "Means over windows of steps do not separate them.",
        advice(f"record single steps, which separates them: run `{command}`", command=command),
    )


def _likely(evidence: Evidence, term: CostlyCause) -> Likely:
    setting, engine = cell_setting(evidence.run, term.cell), str(term.cell["engine"])
    if engine not in _OF_TORCH and (own := of_script(evidence, term)):
        return own
    if engine == DDP_ENGINE:
        from hvdprof.analyze.findings.run_rules.ddp_transfer import under_ddp

        return between_gpus(under_ddp(evidence, term, setting), setting, engine)
    if engine in _OF_TORCH:
        return between_gpus(_OF_TORCH[engine], setting, engine)
    waits = _waits_for_horovod(evidence, term, setting)
    return waits or between_gpus(_transfer(evidence, term, setting), setting, engine)


def _waits_for_horovod(
    evidence: Evidence, term: CostlyCause, setting: CellSetting
) -> Likely | None:
    cycle_ns = cycle_ms(evidence) * 1e6
    executing = float(term.row["executing_share"])
    waits_ns = float(term.row["time_ns"]) * (1 - (0.0 if math.isnan(executing) else executing))
    is_short = step_ns(term.cell) <= CYCLES_OF_A_SHORT_STEP * cycle_ns
    if is_short and waits_ns <= CYCLES_OF_A_WAIT * cycle_ns:
        return Likely(
            "cycle-bound",
            "waiting for Horovod's cycle",
            f"A step takes {units.milliseconds(step_ns(term.cell))} and a cycle of Horovod "
            f"{units.milliseconds(cycle_ns)}, so the wait for cycles matters.",
            _SHORT_CYCLE,
        )
    lacks_cores = setting.every_core_computes and not setting.on_gpus
    cores = _free_cores(setting) if lacks_cores else Advice()
    return negotiation(evidence, term, _between(setting), cores)


def _between(setting: CellSetting) -> str:
    if setting.on_gpus:
        return "between GPUs"
    return f"between {setting.num_hosts} hosts" if setting.num_hosts > 1 else "on one host"


def _transfer(evidence: Evidence, term: CostlyCause, setting: CellSetting) -> Likely:
    if setting.num_hosts > 1:
        return _over_network(evidence, term.cell, setting)
    if setting.on_gpus:
        where = "of ranks on one GPU" if setting.gpu_crowd else "between GPUs of one host"
        return Likely(
            "exposed-transfer",
            f"exposed communication {where}",
            "Backward does not cover it.",
            in_turn(_SEND_LESS_OFTEN, look_at_nccl(evidence.run, setting)),
        )
    return _on_cores(term, setting)


_OF_TORCH: dict[str, Likely] = {
    FSDP_ENGINE: Likely(
        "exposed-transfer",
        "exposed all-gathers and reduce-scatters of FSDP2",
        "No computation covers them.",
        advice(
            "call fully_shard on larger groups of modules",
            "Pass reshard_after_forward=False to gather parameters once per step. Call "
            "set_modules_to_forward_prefetch() and set_modules_to_backward_prefetch() to gather "
            "them earlier. The table `waits` has the time of each kind.",
        ),
    ),
    COLLECTIVES_ENGINE: Likely(
        "exposed-transfer",
        "exposed collectives of the script",
        "No computation covers them.",
        advice(
            "wrap the model by DistributedDataParallel: it reduces gradients while backward runs",
            "Alternatively, reduce fewer and larger tensors. The table `waits` has each "
            "collective.",
        ),
    ),
}


def _over_network(evidence: Evidence, cell: Cell, setting: CellSetting) -> Likely:
    rows = evidence.table(NET_USE.name)
    measured = rows[rows["np"] == cell["np"]].to_dict("records")
    known = [row for row in measured if not row["reason"]]
    if not known:
        reasons = [f"What the network gives is not known: {row['reason']}." for row in measured]
        return Likely(
            "exposed-transfer",
            f"exposed communication between {setting.num_hosts} hosts",
            f"Backward does not cover the transfers between {setting.num_hosts} hosts.",
            in_turn(
                _SEND_LESS,
                _SEND_LESS_OFTEN,
                _MEASURE_NETWORK,
                look_at_nccl(evidence.run, setting),
            ),
            sentences(*reasons),
        )
    row = known[0]
    share = units.interval_of_unit(row["share"], row["share_low"], row["share_high"], "ratio")
    reached, allowed = (
        units.of_unit(1000 * float(row[name]), "MB/s")
        for name in ("busbw_gb_per_s", "allowed_gb_per_s")
    )
    use = (
        f"Large allreduces reach {reached} of bus bandwidth. That is {share} of the {allowed} that "
        f"the same {setting.num_hosts} hosts gave before the run."
    )
    if row["share"] >= NETWORK_SHARE:
        return Likely(
            "network-bound",
            f"network-bound transfers between {setting.num_hosts} hosts",
            "The network between the hosts limits them.",
            in_turn(_SEND_LESS, _SEND_LESS_OFTEN, Advice("Otherwise, use a faster network.")),
            use,
        )
    if setting.on_gpus:
        is_nccl = setting.backend == NCCL
        choices = "NCCL's choices, " if is_nccl else ""
        why = f"The network would allow more: {choices}GPU kernels and copies limit them."
        action = in_turn(
            look_at_nccl(evidence.run, setting),
            _SEND_LESS_OFTEN,
            ONLY_NEGOTIATES if is_nccl else Advice(),
        )
    else:
        why = (
            "The network would allow more: the ranks' cores compute and take part in every "
            "transfer."
        )
        action = in_turn(
            _free_cores(setting),
            Advice() if setting.is_elastic else _OTHER_CONTROLLER,
            _SEND_LESS_OFTEN,
            Advice("A faster network alone brings little."),
        )
    return Likely("below-network", "transfers below the bandwidth of the network", why, action, use)


def _on_cores(term: CostlyCause, setting: CellSetting) -> Likely:
    cores = (
        "the ranks' own cores, which all compute"
        if setting.every_core_computes
        else "the cores of this host"
    )
    less = _free_cores(setting) if setting.every_core_computes else Advice()
    if setting.controller == "gloo":
        other = Advice() if setting.is_elastic else _BY_SHARED_MEMORY
        return Likely(
            "gloo-transfer",
            "exposed Gloo allreduce on one host",
            f"Gloo reduces on {cores}, over the loopback interface.",
            in_turn(other, less, _SEND_LESS_OFTEN, _NO_NETWORK_HELPS),
        )
    if setting.controller != "mpi":
        return Likely(
            "exposed-transfer",
            "exposed allreduce on one host",
            f"The allreduce runs on {cores}.",
            in_turn(less, _SEND_LESS_OFTEN, _NO_NETWORK_HELPS),
        )
    return Likely(
        "shared-memory-transfer",
        "exposed MPI allreduce on one host",
        f"MPI reduces on {cores}, through shared memory.",
        in_turn(less, _SEND_LESS_OFTEN, _NO_NETWORK_HELPS, _FP16_COSTS),
    )


def _free_cores(setting: CellSetting) -> Advice:
    less = "run fewer ranks than cores"
    if not setting.one_thread:
        less = "set a smaller OMP_NUM_THREADS or run fewer ranks"
    return advice(f"{less}, so that Horovod's threads get cores")
