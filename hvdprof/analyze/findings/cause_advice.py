"""What to do about a straggler or a pause, and whether other processes are its cause."""

from hvdprof.analyze.findings.advice import Advice, advice, in_turn
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.gpu_advice import own_gpu
from hvdprof.analyze.findings.machine_evidence import MachineEvidence
from hvdprof.analyze.findings.nccl_rules.nccl_rule import hosts_of, is_several
from hvdprof.analyze.ranks.named_cause import GROWING, IRREGULAR, LASTING, PERIODIC
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.analyze.steps.other_load import OtherLoad
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import ANY_RANK, JITTER
from hvdprof.rundir.plan import HOROVOD_ENGINE

MOST_STEPS = 0.5
"""Share of late steps from which a rank is slow."""

OUTSIDE, EVALUATION, MIXED = "outside", "evaluation", "mixed"
BEFORE_UPDATE = "before_update"

_EVEN_WORK = "Otherwise, even out the work per sample: bucket by length, equal shards."
_MEMORY = "Run `vmstat 1` there as well, to see swapping."
_SLOW_ON_GPUS = advice(
    "run `nvidia-smi -q -d CLOCK,PERFORMANCE` on {host} during the job, and compare clocks and "
    "throttle reasons with {other}",
    "Cool or replace a GPU that throttles. {last}",
    command="nvidia-smi -q -d CLOCK,PERFORMANCE",
)
_COMPARE_WORK = advice(
    "compare the work per sample of {ranks} with that of the others: lengths, shards"
)
_SLOW_BESIDE_NONE = in_turn(
    _COMPARE_WORK,
    Advice(
        "Compare `taskset -cp PID` and `grep MHz /proc/cpuinfo` with {other}, and pin every rank "
        "to its own cores."
    ),
)
_SLOW_ON_CPUS = advice(
    "run `top -H` on {host} during the job, and end what shares cores with {ranks}",
    "Compare `taskset -cp PID` and `grep MHz /proc/cpuinfo` with {other}. Pin every rank to its "
    "own cores. {last}",
    command="top -H",
)
_INPUT = advice(
    "compare the input of {ranks} with that of the others: size of samples, shard, storage, "
    "transforms",
    "More DataLoader workers (num_workers=, for all ranks) or tf.data's .prefetch() hide what is "
    "slow there.",
)
_EVALUATE = advice(
    "split the evaluation among all ranks, and average the metric with {allreduce}",
    "Or evaluate less often.",
)

_LASTING: dict[str, Advice] = {
    "data": _INPUT,
    "optimizer": advice(
        "move work that only {ranks} {do} out of optimizer.step()",
        "Checkpoints and logging on one rank delay all.",
    ),
    BEFORE_UPDATE: advice(
        "move what only {ranks} {do} between backward() and optimizer.step() out of the step: "
        "norms of gradients, .item(), logging, copies to the host"
    ),
    OUTSIDE: advice(
        "look for what only {ranks} {do} between steps: logging, checkpoints, evaluation",
        "For garbage collection, call gc.freeze().",
    ),
    EVALUATION: _EVALUATE,
}
"""What to do about ranks that are slower throughout, by phase; others depend on the device."""

_PERIODIC_RANK = advice(
    "look for what only {ranks} {do} every {period} steps: a checkpoint, logging, evaluation",
    "Do it less often, or in a thread of its own.",
)
_PERIODIC_COMPUTE = advice(
    "look for what only {ranks} {do} every {period} steps in {phase}: a longer batch, .item(), "
    "logging, garbage collection",
    "Compare the samples of its batches with those of the others: `drop_last=True` and a sampler "
    "of equal shards make them alike.",
)
_GROWING = advice(
    "look for what grows on {ranks} over the steps: memory, caches, the list of losses, a graph "
    "kept by retain_graph, a file that is read from its begin",
    "Run `vmstat 1` on {host} during the job, to see swapping.",
    command="vmstat 1",
)
_RARE_RANK = advice(
    "look for what only {ranks} {do} now and then between backward() and optimizer.step(): a "
    "checkpoint, logging, evaluation",
    "Do it less often, or in a thread of its own.",
)
_PERIODIC_ALL = advice(
    "look for what {all_ranks_do} every {period} steps: evaluation, checkpoints, the end of a data "
    "shard",
    "For garbage collection, call gc.freeze().",
)
_RANDOM_RANK = advice(
    "run `pidstat 1` and `iostat -x 1` on {host} during the job, to find what interrupts {ranks}: "
    "other processes, slow storage",
    "For garbage collection, call gc.freeze().",
    command="pidstat 1",
)
_RANDOM_ALL = advice(
    "look for what shares the machine or the storage: other jobs, snapshots, a shared file system",
    "`pidstat 1` and `iostat -x 1` show them during the job. For garbage collection, call "
    "gc.freeze().",
    command="pidstat 1",
)


def cause_advice(evidence: Evidence, cause: CostlyCause, machine: MachineEvidence) -> Advice:
    """What to do about it, with the names of ranks and hosts.

    Args:
        evidence: The run.
        cause: A straggler or pause.
        machine: What samples show of its cores.
    """
    row, ranks = cause.row, ranks_of(cause.row)
    setting = cell_setting(evidence.run, cause.cell)
    hosts = hosts_of_cause(evidence, cause).strip(" ()")
    is_one = len(ranks) == 1
    neighbour = "another GPU" if setting.on_gpus else "another rank"
    of_horovod = cause.cell["engine"] == HOROVOD_ENGINE
    general = _advice(cause, on_gpus=setting.on_gpus)
    if general is _SLOW_ON_GPUS and setting.gpu_crowd:
        # Ranks that all share one GPU have its clocks in common.
        general = in_turn(_COMPARE_WORK, own_gpu(setting, str(cause.cell["engine"])))
    is_alone = setting.num_hosts == 1 and setting.load.is_idle
    if general is _SLOW_ON_CPUS and machine.excludes_cores:
        general = _COMPARE_WORK
    elif general is _SLOW_ON_CPUS and (is_alone or machine.beyond_cores):
        general = _SLOW_BESIDE_NONE
    return general.formatted(
        other="another host" if setting.num_hosts > 1 else neighbour,
        allreduce="hvd.allreduce()" if of_horovod else "torch.distributed.all_reduce()",
        ranks=f"rank {ranks[0]}" if is_one else "these ranks" if ranks else "the ranks",
        do="does" if is_one else "do",
        all_ranks_do="all ranks do" if row["np"] > 1 else "the loop does",
        host=hosts or ("the straggler's host" if is_one else "their hosts"),
        period=f"{float(row['period_steps']):.0f}",
        phase="a step" if row["phase"] == MIXED else str(row["phase"]),
        last=_MEMORY if row["phase"] == MIXED else _EVEN_WORK,
    )


def _advice(cause: CostlyCause, *, on_gpus: bool) -> Advice:
    pattern, phase = str(cause.row["pattern"]), str(cause.row["phase"])
    of_all = not ranks_of(cause.row)
    if phase == EVALUATION:
        return _EVALUATE
    if pattern == PERIODIC and of_all:
        return _PERIODIC_ALL
    if phase == "data":
        return _INPUT
    if pattern == PERIODIC:
        return _PERIODIC_RANK if phase in _LASTING else _PERIODIC_COMPUTE
    if pattern == GROWING:
        return _GROWING
    if is_rare_work(cause.row):
        return _RARE_RANK
    if pattern == IRREGULAR and (of_all or not is_slow(cause.row)):
        return _RANDOM_ALL if of_all else _RANDOM_RANK
    if phase in _LASTING:
        return _LASTING[phase]
    return _SLOW_ON_GPUS if on_gpus else _SLOW_ON_CPUS


def is_slow(row: FrameRow) -> bool:
    """Whether ranks are late in most of the steps, and not now and then."""
    return row["pattern"] in LASTING or float(row["affected_share"]) >= MOST_STEPS


def is_rare_work(row: FrameRow) -> bool:
    """Whether some ranks are late now and then where the script computes no gradients."""
    phase, pattern = str(row["phase"]), str(row["pattern"])
    return pattern == IRREGULAR and phase == BEFORE_UPDATE and bool(ranks_of(row))


def hosts_of_cause(evidence: Evidence, cause: CostlyCause) -> str:
    """`` (node1)``; empty where the hosts are unknown, or one rank ran on several."""
    members = ranks_of(cause.row)
    ranks = evidence.run.ranks.astype({"pass_id": str, "hostname": str})
    passes = set(evidence.launches_of(cause.cell)["pass_id"])
    known = ranks[ranks["rank"].isin(members) & ranks["pass_id"].isin(passes)]
    known = known[known["hostname"] != ""].rename(columns={"hostname": "host"})
    if known.empty or (len(members) == 1 and is_several(known, "host")):
        return ""
    return f" ({hosts_of(known)})"


def explains(load: OtherLoad, row: FrameRow) -> bool:
    """Whether a load can be the cause of a row of WATERFALL of its cell, by its size.

    Never of delays that follow the steps of the job, of which other processes know nothing: every
    so many steps, or of some ranks before the update.
    """
    if row["pattern"] == PERIODIC or is_rare_work(row):
        return False
    return load.can_cost(float(row["share"]), num_ranks_delayed(row))


def is_crowded(evidence: Evidence, cause: CostlyCause) -> bool:
    """Whether other processes can be the cause, of a job on one host; unknown for other hosts."""
    setting = cell_setting(evidence.run, cause.cell)
    return setting.num_hosts <= 1 and explains(setting.load, cause.row)


def num_ranks_delayed(row: FrameRow) -> int:
    """The ranks that must lose time for a row of WATERFALL.

    Those that it names; one for jitter and delays of any rank, as a step waits for its slowest rank
    alone; else all ranks of the cell.
    """
    if row["ranks"] == ANY_RANK or row["term"] == JITTER:
        return 1
    return len(ranks_of(row)) or int(row["np"])
