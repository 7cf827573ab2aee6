"""The rule on exposed communication under DDP, and the command that tries other buckets."""

import shlex
from collections.abc import Mapping

import numpy as np

from hvdprof import units
from hvdprof.analyze.communication.ddp_buckets import num_buckets
from hvdprof.analyze.findings.advice import Advice, Likely, advice, in_turn
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.steps.cell_setting import CellSetting
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.run import Run
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.rundir.attached import attached_files, has_traces
from hvdprof.rundir.launch_format import DdpFacts

_SCRIPT_BEGINS = "--"
_TORCHRUN = "torchrun"


def tune_command(run: Run, num_ranks: int) -> str:
    """``hvdprof tune`` for the script of a run, ready to copy; empty where tune cannot start it.

    Args:
        run: A run of ``hvdprof run`` or ``hvdprof tune``; others have no script.
        num_ranks: The number of ranks to tune.
    """
    settings, words = run.manifest.settings, run.manifest.command
    script = settings.get("script")
    if not isinstance(script, Mapping) or script.get("is_function"):
        return ""
    if run.manifest.options.get("host_discovery_script"):
        return ""
    if _SCRIPT_BEGINS not in words:
        return ""
    own = words[words.index(_SCRIPT_BEGINS) + 1 :]
    if own[:1] == [_TORCHRUN]:
        return shlex.join(["hvdprof", "tune", _SCRIPT_BEGINS, *own])
    launcher = ["--launcher", _TORCHRUN] if settings.get("launcher") == _TORCHRUN else []
    hosts = ["--hosts", str(settings["hosts"])] if settings.get("hosts") else []
    return shlex.join(
        ["hvdprof", "tune", *launcher, "--np", str(num_ranks), *hosts, _SCRIPT_BEGINS, *own]
    )


TIMES_THE_DEFAULT = 4
"""With fewer buckets than so many times DDP's own number, their latency hardly matters."""

LEAST_SHARE = 0.2
"""Latency of the buckets that explains less of the exposed time is not named."""

_SEND_LESS = advice("call register_comm_hook(None, default_hooks.fp16_compress_hook) to send less")
_ACCUMULATE = advice(
    "use a larger batch, or accumulate gradients within no_sync(), to send less often"
)
_REDUCE_ONCE = advice(
    "use no_sync() in all but the last of the {passes} backward passes of a step",
    first="If the {passes} backward passes of a step accumulate gradients, use no_sync() in all "
    "but the last: the step reduces {rounds} times.",
)
_ACCUMULATE_MORE = advice(
    "use a larger batch, or accumulate more than {passes} batches per step, to send less often"
)
_TRY_SIZES = advice(
    "set bucket_cap_mb= to other sizes, and compare them with `hvdprof bench --engine ddp "
    "--fusion-threshold-mb 5`",
    command="hvdprof bench --engine ddp --fusion-threshold-mb 5",
)

_TUNE = "hvdprof tune --launcher torchrun --np {} -- python train.py"
"""For files of a job whose script hvdprof does not know."""


def under_ddp(evidence: Evidence, term: CostlyCause, setting: CellSetting) -> Likely:
    """What is likely behind exposed transfers of DDP.

    Args:
        evidence: The run.
        term: Its exposed transfer in a cell of DDP.
        setting: Placement of the cell.
    """
    small = _small_buckets(evidence, term)
    if small is not None:
        return small
    payload = _payload(evidence, term)
    is_one = _is_one_bucket(evidence, payload)
    # Where DDP's own sizes make one bucket as well, there is nothing to divide.
    has_sizes = not is_one or num_buckets(payload, 0, None) > 1
    # On one host of CPUs there is no wire that fewer bytes would relieve.
    has_wire = setting.num_hosts > 1 or setting.on_gpus
    return Likely(
        "exposed-transfer",
        f"exposed communication of DDP's {'only bucket' if is_one else 'last buckets'}",
        _why(payload, is_one=is_one),
        in_turn(
            _SEND_LESS if has_wire else Advice(),
            _send_less_often(evidence, term.cell),
            _try_sizes(evidence, int(term.cell["np"])) if has_sizes else Advice(),
        ),
    )


def _send_less_often(evidence: Evidence, cell: Cell) -> Advice:
    """By how often a step of one rank runs forward, and waits for reduced gradients."""
    events = evidence.table(EVENTS.name)
    one_rank = (events["rank"] == events["rank"].min()).to_numpy()
    rows = evidence.rows_of(events[one_rank & (events["step"] >= 0).to_numpy()], cell)
    numbers = rows.groupby([*LAUNCH, "step", "activity"], observed=True).size().unstack("activity")
    if not {"forward", "blocked"} <= set(numbers.columns):
        return _ACCUMULATE
    passes, rounds = (int(numbers[name].fillna(0).median()) for name in ("forward", "blocked"))
    if passes <= 1:
        return _ACCUMULATE
    several = _REDUCE_ONCE if rounds == passes else _ACCUMULATE_MORE
    return several.formatted(passes=passes, rounds=rounds)


def _small_buckets(evidence: Evidence, term: CostlyCause) -> Likely | None:
    facts = evidence.run.ddp
    if facts is None or facts.bucket_cap_mb is None or facts.has_cap_list:
        return None
    segments = evidence.run.segments
    gradients = int(segments["num_tensors"].max()) if len(segments) else 0
    payload = _payload(evidence, term)
    now = num_buckets(payload, gradients, facts.bucket_cap_mb)
    usual = num_buckets(payload, gradients, None)
    if now < TIMES_THE_DEFAULT * usual:
        return None
    latency = _latency(facts)
    added_ns = (now - usual) * latency[1] if latency else None
    if added_ns is not None and added_ns < LEAST_SHARE * term.cost_ns:
        return None
    cap = f"bucket_cap_mb={facts.bucket_cap_mb:g}"
    return Likely(
        "small-buckets",
        "DDP's buckets are too small",
        f"With {cap} DDP sends {units.byte_size(payload)} of gradients in about {now} buckets. "
        f"With its default of 25 MiB it sends about {usual}.",
        in_turn(
            advice(f"omit {cap} or set it to 25"),
            Advice() if usual == 1 else _try_sizes(evidence, int(term.cell["np"])),
        ),
        ""
        if latency is None
        else f"An allreduce of {units.byte_size(latency[0])} takes "
        f"{units.milliseconds(latency[1])} here, and each bucket costs about that.",
    )


def _why(payload: int, *, is_one: bool) -> str:
    if not is_one:
        return "Backward does not cover the last buckets."
    size = f" ({units.byte_size(payload)})" if payload else ""
    return f"DDP sends all gradients{size} in one bucket, which is complete when backward ends."


def _is_one_bucket(evidence: Evidence, payload: int) -> bool:
    facts = evidence.run.ddp
    if payload == 0:
        return _one_allreduce(evidence)
    if facts is not None and facts.has_cap_list:
        return False
    # The reference models take their cap from the option for Horovod's fusion buffer.
    of_bench = evidence.run.manifest.options.get("fusion_threshold_mb")
    return num_buckets(payload, 0, of_bench if facts is None else facts.bucket_cap_mb) == 1


def _one_allreduce(evidence: Evidence) -> bool:
    """Whether traces, which hold no sizes of gradients, show one allreduce per step."""
    rows = evidence.table(COLLECTIVES.name)
    reduced = rows[(rows["collective"].astype(str) == "ALLREDUCE").to_numpy()]
    steps = reduced[[*LAUNCH, "step"]]
    return has_traces(evidence.run.manifest) and len(steps) > 0 and not steps.duplicated().any()


def _payload(evidence: Evidence, term: CostlyCause) -> int:
    """Bytes of all gradients; 0 where they are not known."""
    facts = evidence.run.ddp
    return int(term.cell["sent_bytes"]) or (0 if facts is None else facts.gradient_bytes)


def _latency(facts: DdpFacts) -> tuple[int, float] | None:
    """The smallest measured payload in bytes and the median time of its allreduce, ns."""
    if not facts.allreduces:
        return None
    smallest = min(payload for payload, _ in facts.allreduces)
    times = [time_ns for payload, time_ns in facts.allreduces if payload == smallest]
    return smallest, float(np.median(times))


def _try_sizes(evidence: Evidence, num_ranks: int) -> Advice:
    manifest = evidence.run.manifest
    if attached_files(manifest):
        command = _TUNE.format(num_ranks)
    elif manifest.settings.get("script") is None:
        return _TRY_SIZES
    else:
        command = tune_command(evidence.run, num_ranks)
    if not command:
        return Advice()
    return advice(f"run `{command}` to compare other sizes of bucket_cap_mb=", command=command)
