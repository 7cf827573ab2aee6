"""The state of a process of this host as the kernel has it."""

from pathlib import Path

_ENDED, _STOPPED = "ZX", "Tt"


def state_letter(pid: int) -> str:
    """The letter of ``ps``, such as R, S or T; empty where the process has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    letter = status.rpartition(")")[2].split()[0]
    return "" if letter in _ENDED else letter


def is_stopped(letter: str) -> bool:
    """Whether that is the state of a process that a signal has stopped."""
    return bool(letter) and letter in _STOPPED


def process_name(pid: int) -> str:
    """The name of a process, as ``ps`` shows it; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
