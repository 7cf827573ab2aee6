"""Whether a run holds windows of steps, and the command that records its steps."""

import shlex
from collections.abc import Sequence

from hvdprof.model.run import Run
from hvdprof.model.tables.window_tables import WINDOWS

LIGHT_FLAG = "--light"
_BENCH = "bench"
_FOLDER = ("-o", "--output")
_FOLDER_WITH_VALUE = "--output="
FULL_COMMAND = "hvdprof run --np 1,2,4 -- python train.py"


def is_light(run: Run) -> bool:
    """Whether a run holds windows of steps instead of steps."""
    return len(run.table(WINDOWS.name)) > 0


def row_noun(run: Run) -> str:
    """What a row of STEPS is in a sentence: ``windows`` or ``steps``."""
    return "windows" if is_light(run) else "steps"


def full_command(run: Run) -> str:
    """The command of a light run without its flag; an example where the command is unknown.

    It does not name the folder of the light run, which no other run may be written into.
    """
    command = list(run.manifest.command)
    if LIGHT_FLAG not in command:
        return FULL_COMMAND
    # What follows is another program's, which may have options of the same names.
    if "--" in command:
        end = command.index("--")
    else:
        end = len(command) if _BENCH in command[:2] else command.index(LIGHT_FLAG) + 1
    own = [word for word in command[:end] if word != LIGHT_FLAG]
    return shlex.join([*without_folder(own), *command[end:]])


def without_folder(options: Sequence[str]) -> list[str]:
    """Options of ``bench`` or ``run`` without the one that names the run directory."""
    others, is_value = [], False
    for option in options:
        if not is_value and option not in _FOLDER and not option.startswith(_FOLDER_WITH_VALUE):
            others.append(option)
        is_value = option in _FOLDER
    return others
