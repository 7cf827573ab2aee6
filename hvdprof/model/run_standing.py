"""Where a run stands that has not measured all that it was to measure.

Tested in ``tests/analyze/compare/test_comparison.py``.
"""

from hvdprof.rundir.manifest import NOT_ENDED, Manifest, Status


def standing(manifest: Manifest) -> str:
    """``is in progress``, or what ended the run early, to follow a name; empty of a whole run."""
    if manifest.status in NOT_ENDED:
        return "is in progress"
    if manifest.was_killed:
        return "was interrupted, as hvdprof was killed"
    return "was interrupted" if manifest.status == Status.INTERRUPTED else ""
