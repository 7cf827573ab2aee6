"""Stacks of processes as text: of faulthandler, py-spy and gdb, and what a thread waits in.

A frame is ``file:line function`` as in ``rundir.stall_format``; native frames have a library in
place of the file, or nothing.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hvdprof.rundir.recording.stall_format import script_frame, writes_checkpoint

FAULTHANDLER, PY_SPY, GDB = "faulthandler", "py-spy", "gdb"
_HEADS = tuple(
    (tool, re.compile(pattern))
    for tool, pattern in (
        (
            FAULTHANDLER,
            r"(?:(?P<is_current>Current thread|Thread) (?P<id>0x[0-9a-f]+)"
            r"(?: \[(?P<name>[^\]]*)\])?|Stack|Traceback) \(most recent call first\):",
        ),
        (PY_SPY, r"Thread (?P<id>(?:0x)?[0-9A-Fa-f]+) \((?:idle|active)[^)]*\)"
         r"(?:: \"(?P<name>.*)\")?\s*$"),
        (GDB, r"Thread (?P<number>\d+) \((?:Thread 0x[0-9a-f]+ \()?(?:LWP|process) (?P<id>\d+)\)?"
         r"(?: \"(?P<name>[^\"]*)\")?\):"),
    )
)  # fmt: skip
_PYTHON = re.compile(r'\s*File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?),? in (?P<function>.*)$')
# A traceback of an exception has a comma there.
_ORPHAN = re.compile(r'", line \d+ in ')
_SPIED = re.compile(r"\s+(?P<function>\S.*?) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")
_NATIVE = re.compile(
    r"#(?P<number>\d+) +(?:0x[0-9a-f]+ in )?(?P<function>.*?)"
    r"(?: \(.*?(?:, for file (?P<file>[^,]+), line (?P<line>\d+), in (?P<python>[\w<>]+).*)?|\s*)$"
)
_BEGUN = {FAULTHANDLER: re.compile(r'\s*File "'), PY_SPY: re.compile(r"\s+\S.* \([^()]*$")}
_IN_LIBRARY = re.compile(r"\) from (\S+)$")


class Wait(StrEnum):
    """What the main thread of a process is in; the first four are waits for other ranks.

    During backward a rank computes, or waits for the gradients of others: a stack of Python does
    not say which. A rank that synchronizes waits for its GPU, and that for collectives before.
    """

    COLLECTIVE = "collective"
    BACKWARD = "backward"
    SYNCHRONIZE = "synchronize"
    SETUP = "setup"
    CHECKPOINT = "checkpoint"
    DATA = "data"
    LAUNCHER = "launcher"
    OWN = "own code"


_WAITS = tuple(
    (wait, re.compile(pattern))
    for wait, pattern in (
        (
            Wait.SETUP,
            r"distributed_c10d\.py:\d+ (init_process_group|new_group|split_group|_new_process_g\w+|"
            r"_store_based_barrier\w*)|distributed/rendezvous\.py:\d+ (\w+)|(TCPStore)::|"
            r"(ncclCommInit\w*)|horovod/\S*basics\.py:\d+ (init)$",
        ),
        (
            Wait.COLLECTIVE,
            r"distributed/(?:distributed_c10d|nn/functional|_functional_collectives)\.py:\d+ (\w+)|"
            r"horovod/\S+\.py:\d+ (\w+)| (c10d::(?:Reducer|ProcessGroup\w*|Work)::\w+)|"
            r" (gloo::\w+)| P?(MPI_\w+)| p?(nccl(?:AllR|AllG|Red|Bro|Send|Recv|Group|Enq)\w*)| "
            r"(horovod::\w+)|^(lib[nr]ccl)\.so",
        ),
        (Wait.BACKWARD, r"torch/autograd/\w+\.py:\d+ (?:_engine_run_)?(backward)$"),
        (
            Wait.SYNCHRONIZE,
            r" ((?:cuda|cu|hip)(?:Stream|Device|Event|Ctx)?Synchronize)|"
            r"torch/\w+/(?:__init__|streams)\.py:\d+ (?:Stream\.|Event\.)?(synchronize)$",
        ),
    )
)
"""Sought from the innermost frame on to the first of the script; a group is the operation."""
_DATA = re.compile(r"torch/utils/data/|tensorflow/python/data/|webdataset/|datasets/iterable")
_WORKER = re.compile(
    r"torch/utils/data/_utils/(?:worker|pin_memory)\.py|"
    r"torch/distributed/(?:elastic/(?:agent/|multiprocessing/api)|run\.py|launcher/)"
)
_LIBRARIES = (
    "accelerate", "deepspeed", "horovod", "jax", "keras", "lightning", "megatron", "numpy",
    "pytorch_lightning", "ray", "tensorflow", "torch", "torchvision", "transformers",
)  # fmt: skip


@dataclass(slots=True)
class ThreadStack:
    """A thread: its frames, innermost first; ``is_main`` is None where the text does not say."""

    tool: str
    name: str = ""
    thread_id: str = ""
    is_main: bool | None = None
    is_current: bool = False
    frames: list[str] = field(default_factory=list)


@dataclass(slots=True)
class StackReader:
    """Puts the threads of one process together, line by line.

    Attributes:
        threads: Those that began, in order.
        num_joined: Frames that were put together from two lines.
        num_orphans: Frames that follow no thread, because other output is between.
    """

    threads: list[ThreadStack] = field(default_factory=list)
    num_joined: int = 0
    num_orphans: int = 0
    _open: ThreadStack | None = None
    _begun: str = ""

    def is_next(self, text: str) -> bool:
        """Whether a line begins another dump: a second current thread, or that of another tool."""
        begun = thread_begun(text) if self.threads else None
        return begun is not None and (
            begun.tool != self.threads[-1].tool
            or (begun.is_current and any(thread.is_current for thread in self.threads))
        )

    def take(self, text: str) -> bool:
        """Whether the next line is of a stack."""
        if thread := thread_begun(text):
            self._open, self._begun = thread, ""
            self.threads.append(thread)
            return True
        native = _NATIVE.match(text)
        if native and native["number"] == "0" and (not self._open or self._open.frames):
            self._open = ThreadStack(GDB)
            self.threads.append(self._open)
        if self._open is None:
            self.num_orphans += _ORPHAN.search(text) is not None
            return False
        was_begun = bool(self._begun)
        frame = _native_frame(native, text) if native else self._frame(self._open.tool, text)
        if frame:
            self._open.frames.append(frame)
        elif was_begun or not (self._begun or self._open.tool == GDB or text.startswith("  ")):
            self._open = None
        return True

    def _frame(self, tool: str, text: str) -> str:
        """The frame that a line, or the line before with it, holds; empty where none is whole."""
        pattern = _SPIED if tool == PY_SPY else _PYTHON
        begun, self._begun = self._begun, ""
        found = pattern.match(begun + text)
        if begun:
            self.num_joined += found is not None
            # Another process writes between: what follows may be its frames.
            self.num_orphans += found is None and pattern.match(text) is not None
        elif found is None and tool in _BEGUN and _BEGUN[tool].match(text):
            self._begun = text
        return f"{found['file']}:{found['line'] or ''} {found['function']}" if found else ""


def thread_begun(text: str) -> ThreadStack | None:
    """The thread that a line begins; None for any other line."""
    for tool, pattern in _HEADS:
        if found := pattern.match(text):
            said = found.groupdict()
            is_main = said["number"] == "1" if "number" in said else None
            return ThreadStack(
                tool,
                said.get("name") or "",
                said.get("id") or "",
                True if said.get("name") == "MainThread" else is_main,
                said.get("is_current") == "Current thread",
            )
    return None


def _native_frame(found: re.Match[str], text: str) -> str:
    if found["python"]:
        return f"{found['file']}:{found['line']} {found['python']}"
    library = _IN_LIBRARY.search(text)
    function = found["function"].partition("<")[0].replace(" ", "")
    return f"{library[1].rpartition('/')[2] if library else '.so'}: {function}"


def main_thread(threads: Sequence[ThreadStack], pid: str = "") -> ThreadStack | None:
    """The main thread: as named or numbered, else of a module, else the last; None without frames.

    ``faulthandler`` writes the newest thread first.
    """
    # A single line that begins with #0 may be anything.
    filled = [
        thread
        for thread in reversed(threads)
        if len(thread.frames) > (thread.tool == GDB and thread.is_main is None)
    ]
    chosen = [
        *(thread for thread in filled if thread.is_main or (pid and thread.thread_id == pid)),
        *(thread for thread in filled if thread.frames[-1].endswith(" <module>")),
        *filled,
    ]
    return chosen[0] if chosen else None


def own_frame(frames: Sequence[str]) -> str:
    """The innermost frame of the script (innermost first), also where paths begin at a package."""
    return script_frame([frame for frame in frames if not _is_library(frame)])


def wait_of(frames: Sequence[str]) -> tuple[Wait, str]:
    """What a thread waits in, with the operation: a function of Python or of a library."""
    if any(_WORKER.search(frame) for frame in frames):
        return Wait.LAUNCHER, ""
    own = own_frame(frames)
    for frame in frames[: frames.index(own)] if own else frames:
        for wait, pattern in _WAITS:
            if found := pattern.search(frame):
                return wait, next(filter(None, found.groups()), "")
    if writes_checkpoint(frames):
        return Wait.CHECKPOINT, ""
    return (Wait.DATA if any(_DATA.search(frame) for frame in frames) else Wait.OWN), ""


def _is_library(frame: str) -> bool:
    path = frame.rpartition(" ")[0]
    first = path.partition(":")[0].partition("/")[0]
    # py-spy shortens paths of what is imported: torch/_tensor.py, threading.py.
    module = first.removesuffix(".py")
    return ".so" in path or module in _LIBRARIES or module in sys.stdlib_module_names
