"""The processes of a launch: found by a mark in their environment, their children, and their end.

Launchers move their ranks into sessions and process groups of their own, so a group cannot be
ended as a whole. Every process of a pass carries a mark in its environment instead, by which it is
found again and ended by pid. One that has cleared its environment is found below the others, as
long as they live: a daemon with neither parent nor environment stays.
``python -m hvdprof.launch.processes.marked_processes MARK`` ends those of a launch whose launching
side is gone.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from hvdprof.launch.plan.environment import PASS_MARK

GRACE_S = 10.0
STARTING_S = 1.0
# proc_pid_stat(5) counts from the process id on, and two more.
_STATE, _STARTED, _ENV_END = 0, 19, 48

_ENDED, _STOPPED = "ZX", "Tt"


def end_marked(
    mark: str, child: "subprocess.Popen[bytes] | None", *, variable: str = PASS_MARK
) -> None:
    """End a launcher, what carries its mark, and all below: asked first, then killed.

    Args:
        mark: The value of the variable.
        child: The launcher, where it is a child of this process.
        variable: The variable in the environment that marks the processes.
    """
    launcher = [child.pid] if child is not None and child.poll() is None else []
    marked = marked_processes(mark, variable)
    below = {pid: _started(pid) for pid in with_descendants([*launcher, *marked])}
    # Their parents end first, and others may get their numbers.
    unmarked = {pid: one for pid, one in below.items() if pid not in (*launcher, os.getpid())}

    def left_over() -> list[int]:
        alive = [pid for pid, since in unmarked.items() if since and _started(pid) == since]
        return list(dict.fromkeys([*marked_processes(mark, variable), *alive]))

    if child is not None and child.poll() is None:
        # The launcher knows its remote ranks and ends them when it is asked to.
        child.terminate()
        try:
            child.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        left = left_over()
        if not left:
            break
        for pid in left:
            _send(pid, sign)
            # A stopped process takes a signal only when it continues.
            _send(pid, signal.SIGCONT)
        deadline = time.monotonic() + GRACE_S
        while left_over() and time.monotonic() < deadline:
            time.sleep(0.05)
    if child is not None:
        child.wait()


def marked_processes(mark: str, variable: str = PASS_MARK) -> list[int]:
    """The ids of the processes on this host whose environment carries a mark."""
    wanted = f"{variable}={mark}".encode()
    return [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if wanted in _environment_of(folder).split(b"\0")
    ]


def main() -> None:
    """End the processes with the mark that is the argument."""
    (mark,) = sys.argv[1:]
    end_marked(mark, None)


def _send(pid: int, sign: signal.Signals) -> None:
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        return


def _environment_of(folder: Path) -> bytes:
    environment = folder / "environ"
    try:
        if found := environment.read_bytes():
            return found
        deadline = time.monotonic() + STARTING_S
        while _is_starting(folder) and time.monotonic() < deadline:
            time.sleep(0.001)
        return environment.read_bytes()
    except OSError:
        # Gone meanwhile, or another user's, or a thread of the kernel: none of them is ours.
        return b""


def _is_starting(folder: Path) -> bool:
    """Whether a process has its program already, but not yet its environment.

    Raises:
        OSError: It has no program: it is a thread of the kernel, or has ended.
    """
    (folder / "exe").readlink()
    return _fields(folder)[_ENV_END] == "0"


def _started(pid: int) -> str | None:
    """When a process was started, in ticks of the kernel; None where it has ended."""
    try:
        fields = _fields(Path(f"/proc/{pid}"))
    except OSError:
        return None
    return None if fields[_STATE] == "Z" else fields[_STARTED]


def _fields(folder: Path) -> list[str]:
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()


def with_descendants(process_ids: Iterable[int]) -> list[int]:
    """The processes and all below them, parents first; those that have ended are left out.

    Children of a process that has ended belong to another parent, and are not found.
    """
    found: dict[int, None] = {}
    left = list(process_ids)
    while left:
        process_id = left.pop(0)
        if process_id not in found:
            children = _children(process_id)
            if children is not None:
                found[process_id] = None
                left += children
    return list(found)


def memory_bytes(process_ids: Iterable[int]) -> int:
    """The memory of processes, shared pages divided among those that share them."""
    return sum(_memory_bytes(process_id) for process_id in process_ids)


def _memory_bytes(process_id: int) -> int:
    try:
        lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    except OSError:
        # It has just ended.
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def _children(process_id: int) -> list[int] | None:
    """The children of all threads of a process; None where it has ended."""
    try:
        threads = list(Path(f"/proc/{process_id}/task").iterdir())
    except OSError:
        return None
    children: list[int] = []
    for thread in threads:
        try:
            children += map(int, (thread / "children").read_text().split())
        except OSError:
            # The thread has ended, or the kernel has no such file.
            continue
    return children


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


if __name__ == "__main__":
    main()
