"""Whether a process still runs."""

from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended; one that waits to be reaped has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
