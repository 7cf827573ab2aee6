"""`hvdprof inject`: a command with faults in its ranks, to see whether they are found."""

import os
import shlex
import shutil
import sys
from typing import Annotated

import typer

from hvdprof.collect.faults.fault_plan import FAULTS, parse_fault, to_text
from hvdprof.errors import EnvironmentNotReadyError, UsageError


def inject(
    command: Annotated[
        list[str],
        typer.Argument(
            help="The command after `--`: `hvdprof bench ...`, or what starts a script that calls "
            "hvdprof.collect.",
            show_default=False,
        ),
    ],
    fault: Annotated[
        list[str],
        typer.Option(
            help="A fault, such as sleep:phase=backward,rank=1,amount=20ms (docs/howto/inject.md); "
            "may be given several times.",
            show_default=False,
        ),
    ],
) -> None:
    """Run a command with faults in its ranks: delays whose place and size are known.

    The recordings of such a run say so, and the analysis repeats it.
    """
    faults = [parse_fault(text) for text in fault]
    program = shutil.which(command[0])
    if program is None:
        raise EnvironmentNotReadyError(
            f"{command[0]} is not a program that can be started.", hint="Check the name and PATH."
        )
    if os.environ.get(FAULTS):
        raise UsageError(f"{FAULTS} is set already.", hint=f"unset {FAULTS}")
    for one in faults:
        sys.stderr.write(f"injecting {one.text}\n")
    sys.stderr.write(f"into {shlex.join(command)}\n")
    sys.stderr.flush()
    # In place of this process: signals and the exit code are those of the command.
    os.execve(program, command, {**os.environ, FAULTS: to_text(faults)})
