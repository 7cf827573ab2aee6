"""How a fork of `tests.builders.warm_ranks` becomes the process that asked for it.

Tested by tests/test_lean_start.py.
"""

import atexit
import contextlib
import copy
import ctypes
import fcntl
import functools
import importlib
import mmap
import os
import random
import re
import runpy
import signal
import struct
import sys
import threading
import types
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, SourceFileLoader
from io import TextIOWrapper
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from greenlet import greenlet

Stash = dict[str, list[tuple[str, types.ModuleType]]]
"""The modules of torch and Horovod that each import has loaded, by the name of that import."""

PR_SET_NAME, PR_SET_MM, PR_SET_MM_MAP = 15, 35, 14
PLACES = ((23, 24), (25,), (42, 43, 44))
"""Of the code, the stack and the data, in the fields of ``/proc/self/stat`` from the third on."""

HIGH = 512
"""From this number on, no process of a test has an open file at its start."""


def become(asked: dict[str, Any], stash: Stash) -> None:
    """Run the script, and end by ``SystemExit`` or as Python does after an exception."""
    _enter(asked["entered"])
    _take_files(asked["received"], asked["handles"])
    _take_signals(asked["ignored"], asked["blocked"])
    if os.getgroups() != asked["groups"]:
        os.setgroups(asked["groups"])
    os.setsid()
    os.umask(asked["umask"])
    os.chdir(asked["folder"])
    _take_environment(asked)
    os.sched_setaffinity(0, asked["affinity"])
    _take_threads(os.environ.get("OMP_NUM_THREADS"), len(asked["affinity"]))
    unbuffered = "-u" in asked["options"] or bool(os.environ.get("PYTHONUNBUFFERED"))
    _open_streams(unbuffered=unbuffered)
    if os.environ.get("PYTHONFAULTHANDLER"):
        importlib.import_module("faulthandler").enable()
    sys.orig_argv[:], sys.executable = asked["command"], asked["executable"]
    sys.path[:] = asked["path"]
    sys.meta_path.insert(0, _Stashed(stash))
    importlib.invalidate_caches()
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")
    random.seed()
    _run(asked["started"], is_safe="-P" in asked["options"] or "PYTHONSAFEPATH" in os.environ)


def _enter(namespaces: list[str]) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    for path in namespaces:
        with Path(path).open("rb") as file:
            if library.setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"setns {path}")


def _take_files(received: list[int], handles: list[int]) -> None:
    """Have the files of the other process by their numbers, no other one, and end with it."""
    life, *files = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, HIGH) for one in received]
    os.closerange(0, HIGH)
    for file, handle in zip(files, handles, strict=True):
        os.dup2(file, handle)
        os.close(file)
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC)
    os.set_blocking(life, False)
    with contextlib.suppress(BlockingIOError):
        if os.read(life, 1) == b"":
            os.kill(os.getpid(), signal.SIGKILL)


def _take_signals(ignored: list[str], blocked: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for one in signal.Signals:
        if one.name in ignored:
            signal.signal(one, signal.SIG_IGN)
        elif signal.getsignal(one) == signal.SIG_IGN:
            # The server was begun below nohup, whose effect the tests undo.
            signal.signal(one, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _take_environment(asked: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(asked["environment"])
    lines = [os.fsencode(f"{name}={value}") for name, value in asked["environment"].items()]
    _show([os.fsencode(one) for one in asked["command"]], lines)
    ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(asked["name"]), 0, 0, 0)


def _take_threads(variable: str | None, num_processors: int) -> None:
    """Let OpenMP use as many threads as a process does that loads it with these."""
    asked = int((variable or str(num_processors)).partition(",")[0])
    # No more than MKL takes, as torch does.
    number = min(asked, num_processors)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    for library in set(re.findall(r"/\S*/libgomp\S*$", maps, re.MULTILINE)):
        ctypes.CDLL(library).omp_set_num_threads(number)


_shown: list[mmap.mmap] = []


def _show(arguments: list[bytes], environment: list[bytes]) -> bool:
    """Let ``/proc`` show these arguments and variables of this process."""
    middle, end = accumulate(sum(map(len, part)) + len(part) for part in (arguments, environment))
    place = mmap.mmap(-1, end + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    place.write(b"\0".join((*arguments, *environment, b"")))
    _shown.append(place)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(place))
    # proc_pid_stat(5), of which these count from the process id on; then what prctl(2) asks for.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    code, stack, data = ([int(fields[one]) for one in places] for places in PLACES)
    library = ctypes.CDLL(None)
    library.sbrk.restype = ctypes.c_ulong
    lines = (begin, begin + middle, begin + middle, begin + end)
    layout = struct.pack("=12QIi", *code, *data, library.sbrk(0), *stack, *lines, 0, 0, -1)
    return not library.prctl(PR_SET_MM, PR_SET_MM_MAP, layout, ctypes.c_ulong(len(layout)), 0)


def may_show_environment() -> bool:
    """Processes of a launch are found by their environment: without, none may be forked."""
    shown = [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]
    mark = b"HVDPROF_TESTS_SHOWN=1"
    return _show([os.fsencode(one) for one in sys.orig_argv], [*shown, mark]) and (
        mark in Path("/proc/self/environ").read_bytes().split(b"\0")
    )


def _open_streams(*, unbuffered: bool) -> None:
    for handle, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        try:
            writes = handle > 0
            buffering = 0 if writes and unbuffered else -1
            stream = TextIOWrapper(
                open(handle, "wb" if writes else "rb", buffering, closefd=False),  # noqa: SIM115
                encoding=before.encoding,
                errors=before.errors,
                newline="\n" if writes else None,
                line_buffering=handle == 2 or os.isatty(handle),
                write_through=unbuffered,
            )
        except OSError:
            stream = None
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class _Stashed:
    """A finder that gives modules of the server to the script that imports them."""

    def __init__(self, stash: Stash) -> None:
        self._stash = stash
        self._modules = dict(pair for modules in stash.values() for pair in modules)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: object = None
    ) -> ModuleSpec | None:
        """The spec of a module of the server, once."""
        module = self._modules.pop(name, None)
        if module is None or module.__spec__ is None:
            return None
        spec = copy.copy(module.__spec__)
        spec.loader = _OfServer(module, self._loaded_with(name))
        return spec

    def _loaded_with(self, name: str) -> list[tuple[str, types.ModuleType]]:
        """The modules of an import and of those before it; none with any other module."""
        imports = list(self._stash)
        place = imports.index(name) + 1 if name in imports else 0
        return [pair for one in imports[:place] for pair in self._stash[one]]


class _OfServer(Loader):
    """Loads a module that is there, and after it all that its first import had loaded."""

    def __init__(
        self, module: types.ModuleType, further: list[tuple[str, types.ModuleType]]
    ) -> None:
        self._module, self._spec, self._further = module, module.__spec__, further

    def create_module(self, _spec: ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        """Look for each of the others, as their import does: hooks on imports see that."""
        module.__dict__["__spec__"] = self._spec
        for name, one in self._further:
            if name in sys.modules:
                continue
            if one.__spec__ is not None and one.__spec__.name == name:
                importlib.import_module(name)
            else:
                # Made by another module, in C or by hand.
                sys.modules[name] = one


def _run(started: list[str], *, is_safe: bool) -> None:
    """Run the script or module below no frame, as ``__main__``."""
    try:
        run = _prepared(started, is_safe=is_safe)
        greenlet(run).switch()
    except Exception as error:
        _print(error)
        sys.exit(1)
    except KeyboardInterrupt as error:
        _print(error)
        # Python ends itself by the signal then, without a second traceback.
        sys.excepthook = lambda *_: None
        raise
    sys.exit(0)


def _prepared(started: list[str], *, is_safe: bool) -> Callable[[], object]:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={})
    if started[0] == "-m":
        _, module, *arguments = started
        sys.argv[:] = ["-m", *arguments]
        if not is_safe:
            sys.path.insert(0, str(Path.cwd()))
        return functools.partial(runpy._run_module_as_main, module, True)  # type: ignore[attr-defined]
    sys.argv[:] = started
    # As Python spells it: not normalized.
    script = os.path.join(os.getcwd(), started[0])  # noqa: PTH109, PTH118
    main.__dict__.update(
        __file__=script, __cached__=None, __loader__=SourceFileLoader("__main__", script)
    )
    if not is_safe:
        sys.path.insert(0, str(Path(script).resolve().parent))
    code = compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)
    return functools.partial(exec, code, main.__dict__)


def end_at_once(code: object) -> NoReturn:
    """End as Python does, but without taking apart what the server has imported.

    That is three quarters of the processor time of a fork that imports torch and ends. Threads
    and exit functions are seen to before; that of ``sitecustomize`` writes what is open.
    """
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    ctypes.CDLL(None).fflush(None)
    os._exit((code or 0) & 0xFF)


def _print(error: BaseException) -> None:
    """As Python does at the end of the main module; this module's frame is not part of it."""
    assert error.__traceback__ is not None
    frames = error.__traceback__.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
    sys.excepthook(type(error), error.with_traceback(frames), frames)
