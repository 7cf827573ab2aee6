"""Commands that answer the open questions of a standalone file: they record a script as it is.

Tested in ``tests/analyze/files/test_next_recording.py``.
"""

SCALING_COMMAND = "hvdprof run --np 1,2,4 -- python train.py"
"""Measures how well a Horovod script scales, every rank recorded."""

TORCH_SCALING_COMMAND = "hvdprof run --launcher torchrun --np 1,2,4 -- python train.py"
"""The same for a script of torch.distributed."""


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
