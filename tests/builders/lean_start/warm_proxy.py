"""Lets a process be continued by a fork of one that has imported torch: `warm_ranks`.

The process stays, with its id, group, session and parent. It passes signals on, and ends as the
fork does. The fork ends with it, however that happens.

Imports little: what begins cold after all shall be as without this.

Tested by tests/test_lean_start.py.
"""

import _socket
import marshal
import os
import re
import signal
import sys

VARIABLE = "HVDPROF_TESTS_WARM"
"""Names the socket of the server."""

COMMANDS = ".commands"
"""The end of the name of its other socket, for commands of hvdprof."""

COMMAND = ["-m", "hvdprof"]
INSTALLED = "/bin/hvdprof"
IMPORTED_BY_COMMANDS = "tests.builders.warm_modules"

MODULES = {
    "hvdprof.bench_models.train",
    "hvdprof.collect.net_probe",
    "torch.distributed.run",
    "horovod.runner.run_task",
    "horovod.spark.task.gloo_exec_fn",
}
OPTIONS = {"-u", "-P"}
IMPORTS = re.compile(
    rb"^(?:import|from) (?:torch|horovod\.torch|hvdprof\.bench_models)\b", re.MULTILINE
)

PASSED_ON = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGCONT"),
    *("SIGALRM", "SIGTSTP", "SIGWINCH"),
)


def continue_warm() -> None:
    """End as a warm process did in the place of this one; return where this one has to do it."""
    address = os.environ.get(VARIABLE)
    started = sys.orig_argv[1:]
    options = []
    while started and started[0] in OPTIONS:
        options.append(started.pop(0))
    is_command = started[:2] == COMMAND or "".join(started[:1]).endswith(INSTALLED)
    if address is None or not (is_command or _imports_torch(started)):
        return
    if is_command and IMPORTED_BY_COMMANDS in sys.modules:
        # This is the fork.
        return
    # Before this process opens any.
    handles = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    handles = [one for one in handles if _is_inherited(one)]
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        folder = os.getcwd()  # noqa: PTH109
        server.connect(address + COMMANDS if is_command else address)
    except OSError:
        # The folder is gone, or the tests have ended.
        return
    alive, life = os.pipe()
    request = {
        "started": started,
        "options": options,
        "command": sys.orig_argv,
        # What a command starts may be forked, too.
        "environment": {
            name: os.environ[name] for name in os.environ if is_command or name != VARIABLE
        },
        "folder": folder,
        "path": sys.path,
        "executable": sys.executable,
        "handles": handles,
        "affinity": sorted(os.sched_getaffinity(0)),
        "groups": os.getgroups(),
        "umask": _umask(),
        "ignored": [one.name for one in signal.Signals if signal.getsignal(one) == signal.SIG_IGN],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    }
    rights = b"".join(one.to_bytes(4, sys.byteorder) for one in (alive, *handles))
    server.sendmsg([marshal.dumps(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    os.close(alive)
    answer = server.recv(64)
    if not answer:
        os.close(life)
        server.close()
        return
    _wait(server, int(answer), handles)


def _imports_torch(started: list[str]) -> bool:
    if started[:1] == ["-m"]:
        return "".join(started[1:2]) in MODULES
    if not started or not started[0].endswith(".py"):
        return False
    try:
        with open(started[0], "rb") as file:  # noqa: PTH123
            return bool(IMPORTS.search(file.read()))
    except OSError:
        return False


def _is_inherited(handle: int) -> bool:
    try:
        return os.get_inheritable(handle)
    except OSError:
        return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _wait(server: _socket.socket, pid: int, handles: list[int]) -> None:
    """Let the fork alone use what this process was given, and end with its status."""
    for name in PASSED_ON:
        number = signal.Signals[name]
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _: _send(pid, received))
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in handles:
        os.dup2(nothing, one)
    os.close(nothing)
    status = int(server.recv(64) or signal.SIGKILL)
    if os.WIFSIGNALED(status):
        import resource

        ended_by = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if ended_by != signal.SIGKILL:
            signal.signal(ended_by, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), ended_by)
    os._exit(os.WEXITSTATUS(status))


def _send(pid: int, number: int) -> None:
    # Without contextlib, which is not imported here; where it has ended, its status is on the way.
    try:  # noqa: SIM105
        os.kill(pid, number)
    except ProcessLookupError:
        pass
