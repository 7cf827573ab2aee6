"""Rules on switches of Horovod, DDP and NCCL that someone set for a test and forgot.

Tested in ``tests/analyze/tune/test_candidates.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hvdprof.analyze.tune.proposal import Proposal
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.tuning import Candidate
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

_BOTH = (HOROVOD_ENGINE, DDP_ENGINE)


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
