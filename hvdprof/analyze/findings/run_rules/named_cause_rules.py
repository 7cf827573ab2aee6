"""Rules on named causes: stragglers, delays now and then, pauses of all ranks.

Tested in ``tests/analyze/findings/test_named_cause_rules.py``.
"""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.findings.advice import (
    END_OTHER_PROCESSES,
    Advice,
    advice,
    first_or,
    in_turn,
    sentences,
)
from hvdprof.analyze.findings.cell_finding import (
    NO_DATA_PHASE,
    CostlyCause,
    cell_name,
    cell_place,
    costly_causes,
    crowding,
    has_data_phase,
    mark_data,
)
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.analyze.findings.gpu_advice import own_gpu
from hvdprof.analyze.findings.nccl_rules.nccl_rule import hosts_of, is_several
from hvdprof.analyze.ranks.named_cause import (
    GROWING,
    IRREGULAR,
    LASTING,
    PERIODIC,
    PERSISTENT,
)
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.analyze.steps.light_recording import is_light, row_noun
from hvdprof.model.cause_names import FEW_EVENTS, cause_title, ranks_of
from hvdprof.model.causes import PAUSE, STRAGGLER
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.plan import HOROVOD_ENGINE

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
_SLOW_ON_CPUS = advice(
    "run `top -H` on {host} during the job, and end what shares cores with {ranks}",
    "Compare `taskset -cp PID` and `grep MHz /proc/cpuinfo` with {other}. Pin every rank to its "
    "own cores. {last}",
    command="top -H",
)
_INPUT = advice(
    "use more DataLoader workers on {ranks}, or move the input to faster storage",
    "With tf.data, use .prefetch(). Check that all ranks read equal shards.",
    first="Use more DataLoader workers (num_workers=) on {ranks}, or move the input to faster "
    "storage.",
)
_OUTSIDE, _EVALUATION, _MIXED = "outside", "evaluation", "mixed"
_BEFORE_UPDATE = "before_update"

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
    _BEFORE_UPDATE: advice(
        "move what only {ranks} {do} between backward() and optimizer.step() out of the step: "
        "norms of gradients, .item(), logging, copies to the host"
    ),
    _OUTSIDE: advice(
        "look for what only {ranks} {do} between steps: logging, checkpoints, evaluation",
        "For garbage collection, call gc.freeze().",
    ),
    _EVALUATION: _EVALUATE,
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
    "look for what all ranks do every {period} steps: evaluation, checkpoints, the end of a data "
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


def named_causes(evidence: Evidence) -> Iterator[Finding]:
    """Stragglers and pauses of WATERFALL, one finding per row.

    Cells with more ranks than cores count, too, with a caveat unless their ranks mostly sleep or
    wait.
    """
    for cause in costly_causes(evidence, STRAGGLER, PAUSE, oversubscribed=True):
        crowd, sharing = _crowd(evidence, cause), crowding(evidence.run, cause.cell)
        is_between = cause.row["phase"] == _OUTSIDE
        may_be_data = is_between and not has_data_phase(evidence, cause.cell)
        # A pause now and then is hardly the input; a rank that is always late may well load slowly.
        loads_slowly = may_be_data and cause.row["pattern"] in LASTING
        # Other processes know nothing of the steps of the job.
        follows_steps = cause.row["pattern"] == PERIODIC or _is_rare_work(cause)
        action = in_turn(
            mark_data(evidence.run) if loads_slowly else Advice(),
            _action(evidence, cause),
            mark_data(evidence.run) if may_be_data and not loads_slowly else Advice(),
        )
        others = END_OTHER_PROCESSES if crowd and not follows_steps else Advice()
        title, detail = cause_title(cause.row)
        yield Finding(
            _id(cause),
            severity_of_cost(cause.share),
            _subject(cause),
            title,
            sentences(
                _what(evidence, cause),
                _how_often(cause, int(cause.cell["num_launches"])),
                _explained(str(cause.row["phase"]), float(cause.row["phase_share"])),
                NO_DATA_PHASE if may_be_data else "",
                sharing,
            ),
            first_or(others, action),
            _confidence(cause, crowd or sharing),
            detail=detail,
            **cause.cost,
        )


def _id(cause: CostlyCause) -> str:
    if cause.row["term"] == PAUSE:
        return "stalled-steps"
    lasts = cause.row["pattern"] in LASTING
    return "persistent-straggler" if lasts else "transient-straggler"


def _subject(cause: CostlyCause) -> str:
    ranks = ranks_of(cause.row)
    return ranks_named(ranks) if ranks else cell_name(cause.cell)


def _confidence(cause: CostlyCause, disturbed: str) -> str:
    sure = int(cause.row["num_launches"]) > 1 and not disturbed
    return "likely" if sure else "possible"


def _what(evidence: Evidence, cause: CostlyCause) -> str:
    row, ranks = cause.row, ranks_of(cause.row)
    often = units.percent(float(row["affected_share"]), 0)
    late = units.milliseconds(float(row["delay_ns"]))
    place, of_rows = cell_place(cause.cell), f"{often} of the {row_noun(evidence.run)}"
    if is_light(evidence.run):
        late += " per step"
    if row["term"] == PAUSE:
        return f"{place}: all ranks pause in {of_rows}, for {late} each."
    if not ranks:
        return f"{place}: in {of_rows} one of the ranks is late, by {late}."
    who = f"{ranks_named(ranks)}{_hosts(evidence, cause)}"
    if len(ranks) == 1 and row["pattern"] == PERSISTENT:
        # The cost says by how much: a median beside that mean reads as a contradiction.
        return f"{place}: the other ranks wait for {who} in {of_rows}."
    each = "each " if len(ranks) > 1 else ""
    return f"{place}: the other ranks wait for {who} in {of_rows}, {each}by {late}."


def _how_often(cause: CostlyCause, num_launches: int) -> str:
    row = cause.row
    seen = f"in {int(row['num_launches'])} of {num_launches} launches"
    number = int(row["num_events"])
    match row["pattern"]:
        case "periodic":
            events = "1 event" if number == 1 else f"{units.count(number)} events"
            period = f"{float(row['period_steps']):.0f}"
            return f"There are {events} {seen}, at a distance of {period} steps."
        case "irregular":
            events = "is 1 event" if number == 1 else f"are {units.count(number)} events"
            how = ", at no regular distance" if number >= FEW_EVENTS else ""
            return f"There {events} {seen}{how}."
        case "from-step":
            return f"It begins at step {int(row['first_step'])}, {seen}."
        case "for-a-while":
            first, last = int(row["first_step"]), int(row["last_step"])
            return f"It lasts from step {first} to step {last}, {seen}."
        case "growing":
            last_delay = units.milliseconds(float(row["last_delay_ns"]))
            return f"It grows from step {int(row['first_step'])} on, to {last_delay}, {seen}."
    return f"This holds {seen}."


def _explained(phase: str, share: float) -> str:
    """How much of the delay a phase explains; beyond all of it, other phases offset some."""
    which = "The largest phase" if phase == _MIXED else f"The {phase} phase"
    if phase == _BEFORE_UPDATE:
        which = "Time between backward and the update"
    if phase in (_OUTSIDE, _EVALUATION):
        which = "Time between steps"
    if phase == _EVALUATION:
        which += " with an evaluation"
    if share > 1.005:
        more = units.percent(share - 1, 0)
        return f"{which} explains all of the delay, and {more} more that other phases offset."
    return f"{which} explains {units.percent(share, 0)} of the delay."


def _action(evidence: Evidence, cause: CostlyCause) -> Advice:
    row, ranks = cause.row, ranks_of(cause.row)
    setting = cell_setting(evidence.run, cause.cell)
    hosts = _hosts(evidence, cause).strip(" ()")
    is_one = len(ranks) == 1
    neighbour = "another GPU" if setting.on_gpus else "another rank"
    of_horovod = cause.cell["engine"] == HOROVOD_ENGINE
    general = _advice(cause, on_gpus=setting.on_gpus)
    if general is _SLOW_ON_GPUS and setting.gpu_crowd:
        # Ranks that all share one GPU have its clocks in common.
        general = in_turn(_COMPARE_WORK, own_gpu(setting, str(cause.cell["engine"])))
    return general.formatted(
        other="another host" if setting.num_hosts > 1 else neighbour,
        allreduce="hvd.allreduce()" if of_horovod else "torch.distributed.all_reduce()",
        ranks=f"rank {ranks[0]}" if is_one else "these ranks" if ranks else "the ranks",
        do="does" if is_one else "do",
        host=hosts or ("the straggler's host" if is_one else "their hosts"),
        period=f"{float(row['period_steps']):.0f}",
        phase="a step" if row["phase"] == _MIXED else str(row["phase"]),
        last=_MEMORY if row["phase"] == _MIXED else _EVEN_WORK,
    )


def _advice(cause: CostlyCause, *, on_gpus: bool) -> Advice:
    pattern, phase = str(cause.row["pattern"]), str(cause.row["phase"])
    of_all = not ranks_of(cause.row)
    if phase == _EVALUATION:
        return _EVALUATE
    if pattern == PERIODIC and of_all:
        return _PERIODIC_ALL
    if phase == "data":
        return _INPUT
    if pattern == PERIODIC:
        return _PERIODIC_RANK if phase in _LASTING else _PERIODIC_COMPUTE
    if pattern == GROWING:
        return _GROWING
    if _is_rare_work(cause):
        return _RARE_RANK
    if pattern == IRREGULAR:
        return _RANDOM_ALL if of_all else _RANDOM_RANK
    if phase in _LASTING:
        return _LASTING[phase]
    return _SLOW_ON_GPUS if on_gpus else _SLOW_ON_CPUS


def _is_rare_work(cause: CostlyCause) -> bool:
    """Whether some ranks are late now and then where the script computes no gradients."""
    phase, pattern = str(cause.row["phase"]), str(cause.row["pattern"])
    return bool(ranks_of(cause.row)) and pattern == IRREGULAR and phase == _BEFORE_UPDATE


def _crowd(evidence: Evidence, cause: CostlyCause) -> str:
    """The processes that competed for the cores of a job on one host; unknown for other hosts."""
    setting = cell_setting(evidence.run, cause.cell)
    return setting.crowd if setting.num_hosts <= 1 else ""


def _hosts(evidence: Evidence, cause: CostlyCause) -> str:
    """`` (node1)``; empty where the hosts are unknown, or one rank ran on several."""
    members = ranks_of(cause.row)
    ranks = evidence.run.ranks.astype({"pass_id": str, "hostname": str})
    measured = evidence.measured()
    cell = cause.cell
    own = (measured["model"] == cell["model"]) & (measured["size"] == cell["np"])
    passes = set(measured.loc[own & (measured["engine"] == cell["engine"]), "pass_id"])
    known = ranks[ranks["rank"].isin(members) & ranks["pass_id"].isin(passes)]
    known = known[known["hostname"] != ""].rename(columns={"hostname": "host"})
    if known.empty or (len(members) == 1 and is_several(known, "host")):
        return ""
    return f" ({hosts_of(known)})"
