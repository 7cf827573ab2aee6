"""`hvdprof inject`: a command with faults in its ranks, to check that the analysis finds them."""

import os
import shutil
import sys
from typing import Annotated

import typer

from hvdprof import api
from hvdprof.errors import EnvironmentNotReadyError, UsageError


def inject(
    command: Annotated[
        list[str],
        typer.Argument(
            help="The command after `--`: `hvdprof bench ...`, or the start of a script that calls "
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

    The recordings of such a run name the faults, and the analysis reports them.
    """
    variables = api.fault_environment(fault)
    program = shutil.which(command[0])
    if program is None:
        raise EnvironmentNotReadyError(
            f"{command[0]} is not a program that can be started.", hint="Check the name and PATH."
        )
    for name in variables:
        if os.environ.get(name):
            raise UsageError(f"{name} is set already.", hint=f"unset {name}")
    for text in fault:
        sys.stderr.write(f"injecting {text}\n")
    # The arguments may hold secrets.
    sys.stderr.write(f"into {command[0]}\n")
    sys.stderr.flush()
    # In place of this process: signals and the exit code are those of the command.
    os.execve(program, command, {**os.environ, **variables})
