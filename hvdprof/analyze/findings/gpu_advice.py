"""What to do where ranks share a GPU, and where NCCL does not carry what is on GPUs."""

import shlex
from dataclasses import replace

from hvdprof.analyze.findings.advice import Advice, Likely, advice, in_turn, sentences
from hvdprof.analyze.steps.cell_setting import CellSetting
from hvdprof.model.run import Run
from hvdprof.rundir.plan import HOROVOD_ENGINE

NCCL = "nccl"
_OTHERS = {"gloo": "Gloo", "mpi": "MPI"}
_WHERE_NCCL_HELPS = ("exposed-transfer", "below-network")

FEWER_RANKS = advice("run at most one rank per GPU")
_HOROVOD_DEVICE = advice(
    "call torch.cuda.set_device(hvd.local_rank()) before the model is made",
    "Each rank then has a GPU of its own.",
)
_TORCH_DEVICE = advice(
    'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the model is made',
    "Each rank then has a GPU of its own.",
)
_HOROVOD_NCCL = advice(
    "run `hvdprof install-horovod --gpu --force`",
    "It builds Horovod with HOROVOD_GPU_OPERATIONS=NCCL.",
    command="hvdprof install-horovod --gpu --force",
)
_TORCH_NCCL = advice('call init_process_group("nccl")')


def look_at_nccl(run: Run, setting: CellSetting) -> Advice:
    """Where to read what NCCL chose: in the run, whose ranks log it; empty without NCCL."""
    if setting.backend != NCCL:
        return Advice()
    if any(recording.has_info for recording in run.nccl):
        command = f"hvdprof dashboard {shlex.quote(str(run.folder))}"
        where = f"read the page NCCL of `{command}`"
    else:
        command = "hvdprof analyze"
        where = f"run with NCCL_DEBUG=INFO and pass the log to `{command}`"
    return advice(
        f"{where}: it shows the network, rings and protocols that NCCL chose", command=command
    )


def own_gpu(setting: CellSetting, engine: str) -> Advice:
    """A GPU for each rank; empty where no ranks are known to share one."""
    if setting.gpu_crowd is None:
        return Advice()
    if not setting.gpu_crowd.is_misplaced:
        return FEWER_RANKS
    return _HOROVOD_DEVICE if engine == HOROVOD_ENGINE else _TORCH_DEVICE


def sharing(setting: CellSetting) -> str:
    """``2 ranks share 1 GPU.``; empty where no ranks are known to."""
    return f"{setting.gpu_crowd.text}." if setting.gpu_crowd else ""


def between_gpus(likely: Likely, setting: CellSetting, engine: str) -> Likely:
    """What is behind exposed transfers, with a GPU for each rank or NCCL as the first action.

    Only one of the two: NCCL refuses ranks that share a GPU.

    Args:
        likely: What is behind them otherwise.
        setting: Placement of the cell.
        engine: What reduces its gradients.
    """
    other = _OTHERS.get(setting.backend, "")
    if not setting.on_gpus or likely.id not in _WHERE_NCCL_HELPS:
        return likely
    by_nccl = _HOROVOD_NCCL if engine == HOROVOD_ENGINE else _TORCH_NCCL
    first = own_gpu(setting, engine) if setting.gpu_crowd else by_nccl if other else Advice()
    carried = f"{other}, not NCCL, carries what the GPUs send." if other else ""
    return replace(
        likely,
        evidence=sentences(likely.evidence, carried, sharing(setting)),
        action=in_turn(first, likely.action),
    )
