"""Priority of the ranks over other work on a shared machine (Linux, root)."""

import os
from pathlib import Path

PRIORITY = "SCRIPT_PRIORITY"
"""Environment variable: the nice value of the ranks from their start on."""


def take_priority(nice: str) -> None:
    """Run with this nice value, also against other sessions where the kernel groups by session."""
    os.setpriority(os.PRIO_PROCESS, 0, int(nice))
    group = Path("/proc/self/autogroup")
    if group.exists():
        group.write_text(nice, encoding="utf-8")
