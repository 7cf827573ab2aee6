"""Whether a launch that failed before any rank reported in is started once more.

It has measured nothing and says nothing about the script: two launchers of one user disturb each
other, a port that was free is taken, a host refuses a connection too many.
"""

import random
import time

from hvdprof.launch.diagnose.explain import first_exit
from hvdprof.launch.diagnose.failure_evidence import signal_number
from hvdprof.launch.diagnose.printed_errors import PrintedErrors, printed_tail
from hvdprof.rundir.launcher_failures import launcher_failure
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord

MOST_RESTARTS = 2

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.1, 1.0


def starts_again(record: PassRecord, paths: PassPaths, exit_code: int) -> bool:
    """Whether to start a launch again of which no rank has reported in; its record says why.

    A script that fails by itself is not started again, and neither is a launch whose known cause
    lasts. The output of the failed start is kept in a file of its own. Waits for up to a second.

    Args:
        record: The pass.
        paths: Its files.
        exit_code: That of the launcher.
    """
    if len(record.restarts) >= MOST_RESTARTS:
        return False
    reason = _passing_reason(paths, exit_code)
    if not reason:
        return False
    record.restarts.append(reason)
    for path in (paths.stdout, paths.stderr):
        path.replace(paths.of_failed_start(path, len(record.restarts)))
    # Two launchers that disturbed each other shall not start together again.
    time.sleep(random.uniform(_SHORTEST_WAIT_S, _LONGEST_WAIT_S))
    return True


def _passing_reason(paths: PassPaths, exit_code: int) -> str:
    """Why a launch failed, where that may not happen again; else empty."""
    if exit_code == 0 or exit_code < 0 or signal_number(exit_code) is not None:
        return ""
    texts = [printed_tail(paths.stderr), printed_tail(paths.stdout)]
    printed = [PrintedErrors.of(text) for text in texts]
    raised = [errors.first_cause() for errors in printed]
    if any(cause is not None and cause[0] is not None for cause in raised):
        return ""
    known = launcher_failure("\n".join(errors.text() for errors in printed))
    if known is not None:
        return known.text if known.kind.may_pass else ""
    is_of_rank = any(
        errors.has_ranks() or cause is not None or first_exit(text) is not None
        for errors, cause, text in zip(printed, raised, texts, strict=True)
    )
    if is_of_rank:
        return ""
    lines = [line for errors in printed for line in errors.last_lines(None)]
    return lines[0].strip() if lines else f"the launcher ended with exit code {exit_code}"
