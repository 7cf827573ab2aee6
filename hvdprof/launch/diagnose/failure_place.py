"""Where a rank failed, and what the kernel of this host did meanwhile."""

import socket
from dataclasses import replace

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.machine.out_of_memory import oom_kills
from hvdprof.rundir.failures.failure import Failure


class MemoryWatch:
    """Counts the processes that the kernel of this host ends for lack of memory, from now on."""

    def __init__(self) -> None:
        self._before = oom_kills()

    def num_ended(self) -> int:
        """Processes ended since; 0 also where the kernel does not count them."""
        now = oom_kills()
        return 0 if now is None or self._before is None else now - self._before


def with_place(failure: Failure, progress: PassProgress, num_out_of_memory: int) -> Failure:
    """The failure with the host of its rank, and with what the kernel did meanwhile.

    Args:
        failure: What happened.
        progress: The ranks, whose headers name their hosts.
        num_out_of_memory: Processes that this kernel ended for lack of memory meanwhile.
    """
    host = _host_of(failure.rank, progress)
    reason = failure.reason
    here = socket.gethostname()
    if failure.signal == "SIGKILL" and num_out_of_memory and host in (None, here):
        processes = "a process" if num_out_of_memory == 1 else f"{num_out_of_memory} processes"
        reason += f"; the kernel of {here} ended {processes} for lack of memory meanwhile"
    return replace(failure, host=host, reason=reason)


def _host_of(rank: int | None, progress: PassProgress) -> str | None:
    state = None if rank is None else progress.ranks.get(rank)
    header = state.header if state else None
    return str(header["host"]["hostname"]) if header and "host" in header else None
