"""What is known of a launch that failed."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hvdprof.launch.diagnose.printed_errors import PrintedErrors
from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall, StalledRank
from hvdprof.launch.diagnose.unequal_batches import UnequalBatches
from hvdprof.launch.processes.launch_process import LaunchOutcome
from hvdprof.rundir.failures.known_failures import ProcessExit
from hvdprof.rundir.failures.launcher_failures import KnownLauncherFailure, launcher_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSeen:
    """What was seen of the ranks while the launch ran.

    ``stopped_s`` are the seconds for which a signal stopped a rank while another one ran, ``stall``
    is the one in which the launch ended, and ``blocked`` are the ranks whose step had not ended for
    long, with their stacks. ``unequal`` are ranks with fewer batches than others.
    """

    stopped_s: Mapping[int, float] = field(default_factory=dict)
    stall: Stall | None = None
    blocked: Sequence[StalledRank] = ()
    unequal: UnequalBatches | None = None


NOTHING_SEEN = LastSeen()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known of a launch that failed."""

    outcome: LaunchOutcome
    progress: PassProgress
    errors: PrintedErrors
    output: PrintedErrors
    ended: ProcessExit | None
    timeout_s: float
    seen: LastSeen

    @property
    def ended_by(self) -> signal.Signals | None:
        """The signal that ended the process that the launcher names."""
        if self.ended is None:
            return None
        number = self.ended.signal or signal_number(self.ended.exit_code)
        return signal.Signals(number) if number else None

    @property
    def launcher_failure(self) -> KnownLauncherFailure | None:
        """What of the known failures of launchers was printed, if any."""
        return launcher_failure("\n".join((self.errors.text(), self.output.text())))

    @property
    def rank(self) -> int | None:
        """The rank that the launcher names; Hydra names its process, which must be one rank's."""
        if self.ended is None or self.ended.rank is not None or self.ended.pid is None:
            return self.ended.rank if self.ended else None
        ranks = [
            rank
            for rank, state in self.progress.ranks.items()
            if state.header and state.header.get("pid") == self.ended.pid
        ]
        return ranks[0] if len(ranks) == 1 else None


def signal_number(exit_code: int | None) -> int | None:
    """The signal by which a shell reports the end of a process; None where it is an exit code."""
    number = (exit_code or 0) - 128
    return number if number in {int(sign) for sign in signal.Signals} else None
