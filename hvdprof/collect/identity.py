"""Which rank this process is, as its engine or the launcher's environment has it.

The engines' part is tested by tests/collect/clock.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

_FAMILIES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    (
        *("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
        *("JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"),
    ),
    ("PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Rank, size, local_rank and local_size as ``hvd.*`` returns them."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def loaded_horovod() -> ModuleType | None:
    """The module ``horovod.torch``, else ``horovod.tensorflow``, that the script initialised.

    None where it has imported and initialised neither.
    """
    loaded = (sys.modules.get(name) for name in ("horovod.torch", "horovod.tensorflow"))
    # A module that is being imported has no functions yet.
    return next((hvd for hvd in loaded if getattr(hvd, "is_initialized", bool)()), None)


def identity_from_horovod() -> Identity | None:
    """The identity that Horovod has; None before ``hvd.init()`` or without Horovod."""
    hvd = loaded_horovod()
    if hvd is None:
        return None
    return Identity(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())


def loaded_torch_distributed() -> ModuleType | None:
    """The module ``torch.distributed`` where the script has made its process group, else None."""
    module = sys.modules.get("torch.distributed")
    # A module that is being imported has no functions yet.
    is_ready = getattr(module, "is_available", bool)() and getattr(module, "is_initialized", bool)()
    return module if is_ready else None


def identity_from_distributed(environment: Mapping[str, str] = os.environ) -> Identity | None:
    """The identity that ``torch.distributed`` has; None before ``init_process_group()``.

    Local rank and size are those of the launcher where it has set the same rank and size. Else each
    host counts as one rank.
    """
    distributed = loaded_torch_distributed()
    if distributed is None:
        return None
    own = Identity(distributed.get_rank(), distributed.get_world_size(), 0, 1)
    started = identity_from_environment(environment)
    is_same = started is not None and (started.rank, started.size) == (own.rank, own.size)
    return started if is_same else own


def identity_from_environment(environment: Mapping[str, str] = os.environ) -> Identity | None:
    """The identity that the launcher set; None where no known launcher set rank and size.

    Known are the variables of horovodrun, Open MPI, jsrun, PALS, MPICH (PMI), torchrun and Slurm,
    read in that order. Without local rank and size, each host counts as one rank.
    """
    for rank, size, local_rank, local_size in _FAMILIES:
        if _is_number(environment.get(rank)) and _is_number(environment.get(size)):
            return Identity(
                int(environment[rank]),
                int(environment[size]),
                _number_or(environment.get(local_rank), 0),
                _number_or(environment.get(local_size), 1),
            )
    return None


def _is_number(text: str | None) -> bool:
    return text is not None and text.isdecimal()


def _number_or(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default
