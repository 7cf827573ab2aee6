"""The commands that would answer what a lone file leaves open: they record an unmodified script."""

SCALING_COMMAND = "hvdprof run --np 1,2,4 -- python train.py"
"""Measures how well a script scales, every rank recorded."""


def recording_command(num_ranks: int | None) -> str:
    """The command that records every rank of a script.

    Args:
        num_ranks: How many ranks the file was written with; None where it does not tell.
    """
    return f"hvdprof run --np {num_ranks or 4} -- python train.py"
