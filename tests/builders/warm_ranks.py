"""A process that has imported torch and Horovod, from which ranks of tests are forked.

`import torch` is four fifths of the processor time of a short rank. ``tests/conftest.py`` starts
one server per worker of pytest, and names its socket in the environment of the tests. A process
whose script imports torch asks it at its own start (``lean_start/warm_proxy.py``). The fork has the
files, folder, variables, arguments, signals and processors of that process, its environment in
``/proc``, and no frame below the script. It enters the network, the mounts and the host name of
that process, where these are others. Modules of torch and Horovod are not loaded for it until
it imports them, so hooks on imports see them. It has its own process id, session and parent.

A command of hvdprof is forked from a fork of the server that has imported what commands do.

A process begins on its own, cold, where that could matter: in other namespaces than those, control
groups, limits or rights than the server, with another Python or other variables that torch, Python
or the loader read at their start, and in tests without the marker ``warm``.

Tested by tests/test_lean_start.py.
"""

import contextlib
import gc
import importlib
import marshal
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.builders.lean_start.warm_proxy import COMMANDS, IMPORTED_BY_COMMANDS
from tests.builders.places import LEAN_START, ROOT
from tests.builders.warm_fork import Stash, become, end_at_once, may_show_environment

IMPORTED = ("torch", "horovod.torch")
"""The second imports the first, also in a fork."""

PACKAGES = ("torch", "horovod", "functorch", "torchgen")

READ_AT_START = (
    *("OMP_", "MKL", "KMP", "GOMP", "OPENBLAS", "TORCH", "PYTORCH", "ATEN", "LD_", "MALLOC"),
    *("GLIBC", "LANG", "LC_", "PYTHON", "CUDA", "NPY", "NUMPY", "TZ"),
)
READ_LATER = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONSAFEPATH", "TORCHELASTIC_"),
    # Spark sets it for its own workers, whose rows it distributes by hash: ranks have no rows.
    "PYTHONHASHSEED",
)
"""Beginnings of names: the fork or the script sees to these."""

ENTERED = ("net", "uts", "mnt")
"""Kinds of namespaces that a fork enters: root may."""

SAME_LINES = ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp:")


@contextlib.contextmanager
def warm_server(
    folder: Path,
    library: str,
    python: str = sys.executable,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[str]:
    """The address of a server; empty where processes cannot be forked from one.

    Args:
        folder: Of the session of the tests.
        library: For ``LD_PRELOAD``, as of the ranks to come, or empty.
        python: Their interpreter.
        environment: The variables of what starts them.
    """
    address = folder / "warm"
    path = os.pathsep.join((str(LEAN_START), str(ROOT)))
    preload = {"LD_PRELOAD": library} if library else {}
    begun = subprocess.Popen(
        [python, "-m", "tests.builders.warm_ranks", str(address)],
        cwd=ROOT,
        env={**environment, **preload, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert begun.stdin is not None and begun.stdout is not None
    try:
        yield str(address) if begun.stdout.readline() == b"ready\n" else ""
    finally:
        begun.stdin.close()
        begun.wait(60)
        begun.stdout.close()


def main() -> None:
    """Fork what asks for it, until the standard input ends."""
    stash = _import_all()
    if not may_show_environment():
        return
    ranks, commands = (_listener(sys.argv[1] + end) for end in ("", COMMANDS))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    gc.collect()
    gc.freeze()
    _Server(ranks, stash, commands).serve()


def _listener(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    return listener


def _import_all() -> Stash:
    """The modules that each import has loaded, taken out of ``sys.modules`` again."""
    stash: Stash = {}
    for name in IMPORTED:
        before = set(sys.modules)
        importlib.import_module(name)
        loaded = [one for one in sys.modules if one not in before]
        own = [one for one in loaded if one.partition(".")[0] in PACKAGES]
        stash[name] = [(one, sys.modules[one]) for one in own]
    for modules in stash.values():
        for name, _ in modules:
            del sys.modules[name]
    return stash


class _Server:
    def __init__(
        self, listener: socket.socket, stash: Stash, commands: socket.socket | None = None
    ) -> None:
        self._listener, self._stash, self._commands = listener, stash, commands
        self._asking: dict[int, socket.socket] = {}
        self._woken, self._wake = socket.socketpair()
        for one in (self._woken, self._wake):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno())
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        self._selector.register(listener, selectors.EVENT_READ, self._answer)
        self._selector.register(self._woken, selectors.EVENT_READ, self._pass_on_ends)
        if commands is not None:
            self._selector.register(commands, selectors.EVENT_READ, self._begin_commands)

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                key.data()

    def _answer(self) -> None:
        asking, _ = self._listener.accept()
        asked = _received(asking)
        if asked is None:
            asking.close()
            return
        pid = os.fork()
        if pid == 0:
            self._forget()
            asking.close()
            try:
                become(asked, self._stash)
            except SystemExit as end:
                # Hydra kills a rank that leaves it without what MPI does at the end of the process.
                if "PMI_FD" in os.environ:
                    raise
                end_at_once(end.code)
        self._asking[pid] = asking
        for handle in asked["received"]:
            os.close(handle)
        with contextlib.suppress(OSError):
            asking.send(b"%d" % pid)

    def _begin_commands(self) -> None:
        """Leave commands to a fork, which takes them from the first one on."""
        commands, self._commands = self._commands, None
        assert commands is not None
        self._selector.unregister(commands)
        if os.fork() == 0:
            self._forget()
            importlib.import_module(IMPORTED_BY_COMMANDS)
            gc.collect()
            gc.freeze()
            _Server(commands, self._stash).serve()
            os._exit(0)
        commands.close()

    def _forget(self) -> None:
        """Close what the fork does not have: later it would close others by the same numbers."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for one in (self._listener, self._woken, self._wake, *self._asking.values()):
            one.close()
        if self._commands is not None:
            self._commands.close()

    def _pass_on_ends(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = ended
                # That of commands asks for nothing.
                if asking := self._asking.pop(pid, None):
                    with asking, contextlib.suppress(OSError):
                        asking.send(b"%d" % status)


def _received(asking: socket.socket) -> dict[str, Any] | None:
    """What a process asks for; ``None`` where it has to begin cold."""
    message, rights, _, _ = asking.recvmsg(1 << 20, socket.CMSG_SPACE(4 * 253))
    received = [
        int.from_bytes(data[place : place + 4], sys.byteorder)
        for _, _, data in rights
        for place in range(0, len(data), 4)
    ]
    credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid = int.from_bytes(credentials[:4], sys.byteorder)
    asked = marshal.loads(message) if message else {}
    if (
        len(received) == len(asked.get("handles", ())) + 1
        and _folder(asked["executable"]) == _folder(sys.executable)
        and _read_at_start(asked["environment"]) == _read_at_start(os.environ)
        and _conditions(pid) == _conditions(os.getpid())
    ):
        name = Path("/proc", str(pid), "comm").read_bytes().strip()
        return {**asked, "received": received, "name": name, "entered": _other_namespaces(pid)}
    for handle in received:
        os.close(handle)
    return None


def _folder(executable: str) -> Path:
    # Of an environment; a worktree may have it by a link.
    return Path(executable).parent.resolve()


def _read_at_start(environment: Mapping[str, str]) -> dict[str, object]:
    # Launchers put this folder in front, once each; a worktree may have it by a link.
    own = {"", f"{sys.prefix}/lib", str(Path(sys.prefix, "lib").resolve())}
    folders = dict.fromkeys(environment.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_AT_START) and not name.startswith(READ_LATER)
    } | {"LD_LIBRARY_PATH": [one for one in folders if one not in own]}


def _conditions(pid: int) -> object:
    folder, is_root = Path("/proc", str(pid)), os.geteuid() == 0
    same = SAME_LINES if is_root else (*SAME_LINES, "Groups")
    try:
        status = (folder / "status").read_text(encoding="utf-8").splitlines()
        return (
            [
                link.readlink()
                for link in sorted((folder / "ns").iterdir())
                if link.name not in ENTERED or not is_root
            ],
            (folder / "root").readlink(),
            *((folder / name).read_bytes() for name in ("cgroup", "limits", "oom_score_adj")),
            os.getpriority(os.PRIO_PROCESS, pid),
            [line for line in status if line.startswith(same)],
        )
    except OSError:
        # It has ended.
        return None


def _other_namespaces(pid: int) -> list[str]:
    links = [(Path(f"/proc/{pid}/ns/{kind}"), Path(f"/proc/self/ns/{kind}")) for kind in ENTERED]
    return [str(link) for link, own in links if link.readlink() != own.readlink()]


if __name__ == "__main__":
    main()
