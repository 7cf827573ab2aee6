"""Start processes of Horovod without what takes processor time and changes nothing they do.

Python runs this in each process of a test with real ranks, but those of time: ``tests/conftest.py``
puts the folder into ``PYTHONPATH``.

* ``import torch`` registers how operators act on tensors without data: a quarter of its time. Only
  compilers, DTensor and emulated models ask for that; it is registered when one is imported.
* The first optimizer and DDP import torch's compiler only to exclude themselves from compilation.
  They get a module that excludes nothing. What asks it for more gets the compiler.
* Each ``horovodrun`` and ``horovod.run`` imports torch in a child process, only to ask Horovod
  whether it was built with Gloo or MPI. The first one of a worker of the tests does; the others
  read its answer.
* A command of hvdprof asks each host for the Horovod there, and imports torch for it. The first one
  of a worker does; the others read its answer while none of the files it names has changed.
* Spark forks the workers of all jobs of a session from one process, and each imports Horovod's
  half for Spark, with pandas and SciPy. That process imports it for all.
* Python looks for cycles among all objects again and again while torch is imported, and before it
  takes its modules apart: a third of a process that imports torch and ends. It does not, there.
"""

import atexit
import gc
import io
import os
import sys
from types import ModuleType

WITHOUT_DATA = "torch._meta_registrations"
COMPILER = "torch._dynamo"
EXCLUDED = {"torch._compile", "torch.optim.optimizer", "torch.nn.parallel.distributed"}
ANSWER = "hvdprof-horovod-build:"
ASK = {COMPILER, "torch.distributed.tensor", "hvdprof.bench_models.emulated"}


class _Finder:
    """Gives torch a module that registers nothing, and the real one to those that ask for it."""

    is_without_data = True
    collects = False

    def find_spec(self, name: str, *_: object) -> object:
        if name == "torch" and self.is_without_data and _is_imported():
            self.collects = gc.isenabled()
            gc.disable()
        if name == WITHOUT_DATA and self.is_without_data:
            from importlib.machinery import ModuleSpec

            return ModuleSpec(name, self)
        if name == COMPILER and _asks() in EXCLUDED:
            from importlib.machinery import ModuleSpec

            return ModuleSpec(name, _NoCompiler(), is_package=True)
        if name.startswith(f"{COMPILER}.") and _is_left_out():
            return _spec_within(_compiler(), name)
        if name in ASK and self.is_without_data:
            self.is_without_data = False
            sys.modules.pop(WITHOUT_DATA, None)
            __import__(WITHOUT_DATA)
        return None

    def create_module(self, _spec: object) -> None:
        """The module is an ordinary one."""

    def exec_module(self, _module: object) -> None:
        import torch

        if self.collects:
            gc.enable()
        # What the real one imports does this for torch.Generator, from torch 2.13 on.
        if late := getattr(torch._C, "_set_generator_metaclass", None):
            from torch._opaque_base import OpaqueBaseMeta

            late(OpaqueBaseMeta)


class _Deferred(ModuleType):
    """Has what it was given. To give anything else, it imports the module that it stands for."""

    def __getattr__(self, name: str) -> object:
        # What walks over all modules reads such names.
        if name.startswith("__"):
            raise AttributeError(name)
        _compiler()
        return getattr(sys.modules[self.__name__], name)


class _NoCompiler:
    """Makes a module that gives ``EXCLUDED`` what they ask for, as nothing is compiled."""

    def create_module(self, _spec: object) -> ModuleType:
        """Has the defaults of the compiler."""
        utils, rules = (_Deferred(f"{COMPILER}.{name}") for name in ("utils", "trace_rules"))
        utils.__dict__["get_optimize_ddp_mode"] = lambda: "ddp_optimizer"
        rules.__dict__["clear_lru_cache"] = lambda: None
        made = _Deferred(COMPILER)
        made.__dict__.update(
            disable=lambda function, *_options, **_named: function,
            graph_break=lambda: None,
            utils=utils,
            trace_rules=rules,
        )
        return made

    def exec_module(self, _module: object) -> None:
        """The module is complete."""


class _Loaded:
    """A module that its package has imported."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _spec: object) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """It stays as it is."""
        module.__spec__ = self._spec


def _asks() -> object:
    """The name of the module that imports one, below what passes an import on."""
    frame = sys._getframe(2)
    # `torch._dynamo` is an attribute of torch that is imported when it is read.
    passes_on = ("importlib", "importlib._bootstrap", "torch")
    while frame and frame.f_globals.get("__name__") in passes_on:
        frame = frame.f_back
    return frame and frame.f_globals.get("__name__")


def _is_imported() -> bool:
    """Whether what a finder is asked for is imported: not only looked for."""
    return sys._getframe(3).f_code.co_name == "_find_and_load_unlocked"


def _is_left_out() -> bool:
    return isinstance(sys.modules.get(COMPILER), _Deferred)


def _compiler() -> ModuleType:
    """The real one, from now on in its place."""
    if _is_left_out():
        del sys.modules[COMPILER]
        # By this module, which is not excluded.
        __import__(COMPILER)
    return sys.modules[COMPILER]


def _spec_within(package: ModuleType, name: str) -> object:
    from importlib.machinery import ModuleSpec, PathFinder

    if name in sys.modules:
        return ModuleSpec(name, _Loaded(sys.modules[name]))
    return PathFinder.find_spec(name, package.__path__)


def _remember_features(folder: str) -> None:
    """Let a launcher of Horovod keep what it asks of an installed Horovod in a folder."""
    import json
    from pathlib import Path

    from horovod.common import util

    ask = util._check_extension_lambda

    def answer(extension: str, asked: object, feature: str, verbose: bool) -> object:
        place = f"{util.__file__} {extension} {feature}".replace("/", "_")
        file = Path(folder, f"{place}.json")
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps(ask(extension, asked, feature, verbose)))
            new.replace(file)
        return json.loads(file.read_text())

    util._check_extension_lambda = answer


def _answer_once(folder: str, question: str) -> None:
    """Print what this interpreter was answered before and end, or remember what it will print."""
    import atexit
    import hashlib
    import json
    from pathlib import Path

    variables = sorted(os.environ.items())
    of_loaders = [pair for pair in variables if pair[0].startswith(("LD_", "OPAL_", "PYTHON"))]
    digest = hashlib.sha256(repr((sys.executable, question, of_loaders)).encode()).hexdigest()
    file = Path(folder, f"answer-{digest[:16]}.json")

    def stamps(answer: str) -> dict[str, list[int]]:
        found = {}
        for path in map(Path, json.loads(answer.partition(ANSWER)[2])["files"]):
            status = path.stat() if path.exists() else None
            found[str(path)] = [status.st_size, status.st_mtime_ns] if status else []
        return found

    if file.exists():
        answer, stamped = json.loads(file.read_text())
        if stamps(answer) == stamped:
            os.write(1, answer.encode())
            os._exit(0)
    printed: list[str] = []
    write = sys.stdout.write
    sys.stdout.write = lambda text: printed.append(text) or write(text)

    def remember() -> None:
        answer = "".join(printed)
        if '"files"' in answer:
            new = file.with_suffix(f".{os.getpid()}")
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps([answer, stamps(answer)]))
            new.replace(file)

    atexit.register(remember)


def _leave_cycles() -> None:
    """Write what is open in them, and leave it at that."""
    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for one in gc.get_objects():
        if issubclass(type(one), kinds):
            # Without contextlib, which is not imported here.
            try:  # noqa: SIM105
                one.flush()
            except (ValueError, OSError):
                pass
    gc.freeze()


if "HVDPROF_TESTS_WARM" in os.environ:
    # Only there: every process of a test runs this.
    __import__("warm_proxy").continue_warm()
# The first one runs last.
atexit.register(_leave_cycles)
if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _Finder())
_state = os.environ.get("XDG_STATE_HOME")
if _state and (
    "".join(sys.orig_argv[1:2]).endswith("/horovodrun")
    or sys.orig_argv[1:3] == ["-m", "hvdprof.launch.functions.in_python"]
):
    _remember_features(_state)
elif _state and sys.orig_argv[1:3] == ["-P", "-c"] and ANSWER in sys.orig_argv[3]:
    _answer_once(_state, sys.orig_argv[3])
elif sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    __import__("horovod.spark")
