"""Rules on what the user's script and environment must take: fp16, accumulation, switches.

No variable sets fp16 and accumulation. A script that has an argument for one is tuned by that
argument; of a script that has none, hvdprof says so.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import has_data_phase
from hvdprof.analyze.tune.proposal import Proposal, Untried
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

FP16_FLAGS = ("--fp16-allreduce", "--fp16_allreduce")
PASSES_FLAGS = (
    "--backward-passes-per-step",
    "--backward_passes_per_step",
    "--batches-per-allreduce",
    "--batches_per_allreduce",
)
LEAST_EXPOSED = 0.05
_BOTH = (HOROVOD_ENGINE, DDP_ENGINE)


def fp16_compression(job: TunedJob) -> Iterator[Proposal]:
    """Gradients of half the size; changes the arithmetic."""
    if not job.is_horovod or job.exposed_share < job.margin:
        return
    if job.finding("fp16-costs"):
        yield Untried("fp16", "This run has measured it, and it is slower.")
        return
    if not job.setting.on_gpus and job.setting.num_hosts == 1:
        yield Untried(
            "fp16",
            "On one host without GPUs the casts cost more than smaller messages save.",
        )
        return
    why = (
        f"{units.byte_size(job.sent_bytes)} per step would become half, and exposed transfer takes "
        f"{units.percent(job.exposed_share)} of the step."
    )
    if job.is_bench:
        yield Candidate(
            name="fp16", options={"compression": "fp16"}, changes_numerics=True, why=why
        )
        return
    yield from _by_switch(job, "fp16", FP16_FLAGS, why, "compression=hvd.Compression.fp16")


def accumulation(job: TunedJob) -> Iterator[Proposal]:
    """Several backward passes per allreduce; changes the batch of an update."""
    if not job.is_horovod or job.exposed_share < LEAST_EXPOSED:
        return
    what = "backward_passes_per_step"
    if job.is_bench:
        yield Untried(what, "The reference models reduce after every backward pass.")
        return
    flag = flag_of(job, PASSES_FLAGS)
    if not flag:
        yield _takes_no_argument(job, what, f"{what}=")
        return
    why_not = _uncounted_samples(job)
    if why_not:
        yield Untried(what, why_not)
        return
    present = value_of(job.arguments, flag) or 1
    for factor in (2, 4):
        number = round(present * factor)
        yield Candidate(
            name=f"{flag} {number}",
            arguments=(flag, str(number)),
            changes_numerics=True,
            why="Gradients are reduced once per "
            f"{number} backward passes, and exposed transfer takes "
            f"{units.percent(job.exposed_share)} of the step.",
        )


def _uncounted_samples(job: TunedJob) -> str:
    """Why more backward passes per step would not count as more samples; empty where they do."""
    if job.options.get("batch_size") is not None:
        return (
            "With --batch-size the samples per step are fixed, so the gain cannot be measured. "
            "Omit it to try accumulation."
        )
    if not has_data_phase(job.evidence, job.cell):
        return (
            "Without a data loader, the samples of a step are those of its first forward pass, so "
            "the gain cannot be measured."
        )
    return ""


def _by_switch(
    job: TunedJob, name: str, flags: Sequence[str], why: str, in_code: str
) -> Iterator[Proposal]:
    flag = flag_of(job, flags)
    if not flag:
        yield _takes_no_argument(job, name, in_code)
    elif not any(word.partition("=")[0] == flag for word in job.arguments):
        yield Candidate(name=flag, arguments=(flag,), changes_numerics=True, why=why)


def _takes_no_argument(job: TunedJob, name: str, in_code: str) -> Untried:
    if not job.means.script_text:
        return Untried(name, f"Whether the script takes an argument for it ({in_code}) is unknown.")
    return Untried(name, f"The script takes no argument for it; change {in_code} in its code.")


def flag_of(job: TunedJob, flags: Sequence[str]) -> str:
    """The first of these arguments that the source of the script names; empty where none."""
    text = job.means.script_text
    return next((flag for flag in flags if re.search(rf"['\"]{flag}['\"]", text)), "")


def value_of(arguments: Sequence[str], flag: str) -> float | None:
    """The number behind the last ``--flag`` of a command line; None where it is not there."""
    found = None
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name != flag:
            continue
        text = value if equals else following
        found = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else found
    return found


@dataclass(frozen=True, slots=True)
class Switch:
    """A variable that is off its default by hand, and the value that undoes it."""

    variable: str
    bad: tuple[str, ...]
    good: str
    what: str
    on_gpus: bool = True
    between_hosts: bool = False
    engines: tuple[str, ...] = _BOTH


SWITCHES: tuple[Switch, ...] = (
    Switch("NCCL_P2P_DISABLE", ("1",), "0", "NCCL copies between GPUs through the host"),
    Switch("NCCL_SHM_DISABLE", ("1",), "0", "NCCL uses the network inside a host"),
    Switch("NCCL_IB_DISABLE", ("1",), "0", "NCCL uses sockets instead of InfiniBand", True, True),
    Switch("CUDA_LAUNCH_BLOCKING", ("1",), "0", "each kernel is waited for"),
    Switch(
        "HOROVOD_BATCH_D2D_MEMCOPIES",
        ("0",),
        "1",
        "Horovod copies gradients one by one",
        engines=(HOROVOD_ENGINE,),
    ),
    Switch(
        "HOROVOD_DISABLE_GROUP_FUSION",
        ("1",),
        "0",
        "Horovod keeps groups of gradients apart",
        on_gpus=False,
        engines=(HOROVOD_ENGINE,),
    ),
    Switch(
        "TORCH_NCCL_BLOCKING_WAIT",
        ("1",),
        "0",
        "the host waits for each collective",
        engines=(DDP_ENGINE,),
    ),
    Switch(
        "TORCH_DISTRIBUTED_DEBUG",
        ("DETAIL",),
        "OFF",
        "PyTorch compares every collective between the ranks before it runs",
        on_gpus=False,
        engines=(DDP_ENGINE,),
    ),
)


def switches(job: TunedJob) -> Iterator[Proposal]:
    """Switches that are off their default by hand."""
    if not (job.is_horovod or job.is_ddp):
        return
    for switch in SWITCHES:
        applies = (
            job.cell["engine"] in switch.engines
            and (job.setting.on_gpus or not switch.on_gpus)
            and (job.setting.num_hosts > 1 or not switch.between_hosts)
        )
        if applies and (job.variable(switch.variable) or "").upper() in switch.bad:
            yield Candidate(
                name=f"{switch.variable}={switch.good}",
                environment={switch.variable: switch.good},
                why=f"{switch.what[0].upper()}{switch.what[1:]}, because "
                f"{switch.variable}={job.variable(switch.variable)} is set.",
            )
