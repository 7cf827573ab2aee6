"""The command that tries settings on the job of a run.

Tested in ``tests/analyze/findings/test_tune_command.py``.
"""

import shlex
from collections.abc import Mapping

from hvdprof.model.run import Run

_SCRIPT_BEGINS = "--"
_TORCHRUN = "torchrun"


def tune_command(run: Run, num_ranks: int) -> str:
    """``hvdprof tune`` for the script of a run, ready to copy; empty where tune cannot start it.

    Args:
        run: A run of ``hvdprof run`` or ``hvdprof tune``; others have no script.
        num_ranks: The number of ranks to tune.
    """
    settings, words = run.manifest.settings, run.manifest.command
    script = settings.get("script")
    if not isinstance(script, Mapping) or script.get("is_function"):
        return ""
    if run.manifest.options.get("host_discovery_script"):
        return ""
    if _SCRIPT_BEGINS not in words:
        return ""
    own = words[words.index(_SCRIPT_BEGINS) + 1 :]
    if own[:1] == [_TORCHRUN]:
        return shlex.join(["hvdprof", "tune", _SCRIPT_BEGINS, *own])
    launcher = ["--launcher", _TORCHRUN] if settings.get("launcher") == _TORCHRUN else []
    hosts = ["--hosts", str(settings["hosts"])] if settings.get("hosts") else []
    return shlex.join(
        ["hvdprof", "tune", *launcher, "--np", str(num_ranks), *hosts, _SCRIPT_BEGINS, *own]
    )
