"""Whether the launches of a repeat take turns, and why not.

Tested in ``tests/launch/plan/test_bench_settings.py`` and ``tests/launch/run/test_script_run.py``.
"""

LONGEST_TURN_S = 1.0

ON_HOSTS = "their ranks are on several hosts, or placed by Slurm"
ON_GPUS = "they use GPUs"
BY_MEMORY = "they do not fit into memory together"
OF_ELASTIC = "an elastic job has sessions, and no turns"
OF_FUNCTION = "functions are started by their own launcher"
STOOD_APART = "their ranks do not stop at the same step"
NEVER_STOOD = "the ranks of one ended without waiting for a turn"


def reason_by_place(*, is_elsewhere: bool, device: str) -> str:
    """Why the place of the ranks allows no turns; empty where it does."""
    if is_elsewhere:
        return ON_HOSTS
    return "" if device == "cpu" else ON_GPUS


def failed_beside(sizes: str) -> str:
    """Why a script that failed beside others has no turns from then on."""
    return f"np={sizes} failed beside the others"
