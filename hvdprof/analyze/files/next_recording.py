"""Commands that answer the open questions of a standalone file: they record a script as it is."""

from hvdprof.rundir.plan import HOROVOD_ENGINE, TORCH_DISTRIBUTED_ENGINES

SCALING_COMMAND = "hvdprof run --np 1,2,4 -- python train.py"
"""Measures how well a Horovod script scales, every rank recorded."""

TORCH_SCALING_COMMAND = "hvdprof run --launcher torchrun --np 1,2,4 -- python train.py"
"""The same for a script of torch.distributed."""


def scaling_command(engine: str) -> str:
    """The command that measures how a recorded script scales.

    Args:
        engine: As the ranks name it; empty under Horovod.
    """
    return TORCH_SCALING_COMMAND if engine in TORCH_DISTRIBUTED_ENGINES else SCALING_COMMAND


def scaling_advice(engine: str) -> str:
    """The command that measures how a script scales, in backquotes; both where none is known.

    Args:
        engine: What reduces the gradients; may be ``unknown``.
    """
    if engine in (HOROVOD_ENGINE, *TORCH_DISTRIBUTED_ENGINES):
        return f"`{scaling_command(engine)}`"
    return f"`{TORCH_SCALING_COMMAND}` (without `--launcher torchrun` for Horovod)"


def recording_command(num_ranks: int | None) -> str:
    """The command that records every rank of a Horovod script.

    Args:
        num_ranks: Ranks of the job; None where the file does not say.
    """
    return f"hvdprof run --np {num_ranks or 4} -- python train.py"


def torch_recording_command(num_ranks: int | None) -> str:
    """The command that records every rank of a script of torch.distributed.

    Args:
        num_ranks: Ranks of the job, not files of it; None where the files do not say.
    """
    return f"hvdprof run --launcher torchrun --np {num_ranks or 'N'} -- python train.py"
