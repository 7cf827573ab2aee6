"""Ends what a launch has started where its launching side is gone, be it by SIGKILL.

Launchers and ranks do not see that hvdprof has died, and stopped ranks could not end themselves. A
shell waits for the end of a pipe that the launching side alone holds open, and then becomes the
command that ends the processes. Until then it costs a thousandth of a second.
"""

import os
import shlex
import subprocess
from collections.abc import Sequence

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.plan.environment import PASS_MARK
from hvdprof.launch.plan.provenance import python_program
from hvdprof.launch.plan.workload import INSTALLED_ALONE

_DISMISSED = b".\n"


class OrphanGuard:
    """Runs commands if this process dies before it dismisses the guard.

    Args:
        commands: Argument lists; they run at the same time.

    Raises:
        EnvironmentNotReadyError: There is no shell.
    """

    def __init__(self, *commands: Sequence[str]) -> None:
        at_once = "".join(f"{shlex.join(command)} & " for command in commands)
        own = {name: value for name, value in os.environ.items() if name != PASS_MARK}
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", f"read -r dismissed || {{ {at_once}wait; }}"],
                env={**own, **INSTALLED_ALONE},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A signal to the group of the launching side, such as Ctrl-C, is not for the guard.
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentNotReadyError(f"Could not start /bin/sh: {error.strerror}.") from error

    @classmethod
    def of_mark(cls, mark: str) -> "OrphanGuard":
        """A guard that ends every process on this host whose environment carries the mark."""
        return cls(python_program("hvdprof.launch.processes.marked_processes", mark))

    def dismiss(self) -> None:
        """The processes are gone, so the guard ends without running its commands."""
        self._shell.communicate(_DISMISSED)
