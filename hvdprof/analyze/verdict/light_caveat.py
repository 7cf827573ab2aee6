"""What a light recording cannot say, with the command that records it.

Tested in ``tests/api/test_light_run.py``.
"""

from hvdprof.analyze.steps.light_recording import full_command, is_light
from hvdprof.model.run import Run


def light_caveat(run: Run) -> str:
    """One sentence, empty where no launch was recorded so."""
    if not is_light(run):
        return ""
    return (
        "Light recording: means over windows of steps, so jitter within a window counts as exposed "
        f"transfer; for single steps, gradients and collectives run `{full_command(run)}`."
    )
