"""Commands that answer the open questions of a standalone file: they record a script as it is.

Tested in ``tests/analyze/files/test_timeline_verdict.py``.
"""

SCALING_COMMAND = "hvdprof run --np 1,2,4 -- python train.py"
"""Measures how well a script scales, every rank recorded."""


def recording_command(num_ranks: int | None) -> str:
    """The command that records every rank of a script.

    Args:
        num_ranks: How many ranks the file was written with; None where it does not say.
    """
    return f"hvdprof run --np {num_ranks or 4} -- python train.py"
