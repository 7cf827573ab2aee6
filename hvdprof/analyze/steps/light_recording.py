"""Whether a run holds windows of steps, and the command that records its steps.

Tested in ``tests/api/test_light_run.py``.
"""

import shlex

from hvdprof.model.run import Run
from hvdprof.model.tables.window_tables import WINDOWS

LIGHT_FLAG = "--light"
FULL_COMMAND = "hvdprof run --np 1,2,4 -- python train.py"


def is_light(run: Run) -> bool:
    """Whether a run holds windows of steps instead of steps."""
    return len(run.table(WINDOWS.name)) > 0


def row_noun(run: Run) -> str:
    """What a row of STEPS is in a sentence: ``windows`` or ``steps``."""
    return "windows" if is_light(run) else "steps"


def full_command(run: Run) -> str:
    """The command of a light run without its flag; an example where the command is unknown."""
    command = run.manifest.command
    if LIGHT_FLAG not in command:
        return FULL_COMMAND
    place = command.index(LIGHT_FLAG)
    return shlex.join([*command[:place], *command[place + 1 :]])
