"""Waits for a script to import a Horovod, or to make a process group of `torch.distributed`.

Every Python process below `hvdprof run` loads this, on its own, from the folder in front of
PYTHONPATH. So it imports `sys` alone, and `os`, which Python has loaded: another module of the
standard library that is loaded here would hide a file of the same name beside the user's script,
and every start would take longer.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

STRATEGIES = "tensorflow"
"""Has the strategies of ``tf.distribute``."""

RECORDERS = {
    "horovod.torch": "hvdprof.collect.auto.autorecord",
    "horovod.tensorflow": "hvdprof.collect.tensorflow.tensorflow_watch",
    STRATEGIES: "hvdprof.collect.tensorflow.strategy_watch",
}
"""The awaited module, and the module whose ``record_training`` is called with it."""

GROUPS = "torch.distributed.distributed_c10d"
"""Defines ``init_process_group``. `import torch` loads it, so its import alone says nothing."""

UPDATES = "torch.optim.optimizer"
"""Defines torch's global hook on updates."""

PROCESSES = "multiprocessing.process"
"""Defines what a worker of a data loader runs."""

WORKERS = "hvdprof.collect.lines.worker_lines"

NOTICE_FILE = "unrecorded.txt"
"""In the folder of the recorder files, where a rank trains what cannot be recorded."""

NOTICE = (
    "the script trains without Horovod and without a process group of torch.distributed, so "
    "nothing can be recorded; hvdprof run records hvd.DistributedOptimizer, loops that reduce by "
    "Horovod, and DistributedDataParallel (--launcher torchrun)"
)

DISTRIBUTED_RECORDER = "hvdprof.collect.auto.distributed_recording"
"""The module whose ``record_training`` is called at the first process group."""


class AfterImport:
    """A finder that calls a function with a module once, after the module has been executed.

    Args:
        name: The full name of the module.
        act: Called with it; where it raises, one line on stderr says so and the import continues.
    """

    def __init__(self, name: str, act: "Callable[[ModuleType], None]") -> None:
        self._name = name
        self._act = act
        self._is_looking = False

    def find_spec(
        self, fullname: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """The spec from the other finders, with the function behind the execution of the module."""
        if fullname != self._name or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = self._found_by_others(fullname, path, target)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            try:
                self._act_after(spec)
            except Exception as error:
                _report(error)
        return spec

    def _found_by_others(
        self, fullname: str, path: "Sequence[str] | None", target: "ModuleType | None"
    ) -> "ModuleSpec | None":
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    def _act_after(self, spec: "ModuleSpec") -> None:
        loader = spec.loader
        assert loader is not None
        execute = loader.exec_module

        def execute_and_act(module: "ModuleType") -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                try:
                    self._act(module)
                except Exception as error:
                    _report(error)

        # On this loader alone: other modules are loaded as ever.
        loader.exec_module = execute_and_act  # type: ignore[method-assign]


def install() -> None:
    """Record the training of this process as soon as it imports a Horovod, or has."""
    is_waiting = any(type(finder).__name__ == AfterImport.__name__ for finder in sys.meta_path)
    awaited = {
        # TensorFlow itself only in workers of a strategy: its import alone costs nothing.
        **{name: _record for name in RECORDERS if name != STRATEGIES or "TF_CONFIG" in os.environ},
        GROUPS: _await_group,
        UPDATES: _await_update,
        PROCESSES: watch_workers,
    }
    for name, act in awaited.items():
        if name in sys.modules:
            act(sys.modules[name])
        elif not is_waiting:
            # Duck typing: the class of finders would have to be imported.
            sys.meta_path.insert(0, AfterImport(name, act))


def _await_group(module: "ModuleType") -> None:
    """Record from the first process group on; importing torch alone costs nothing."""
    make = getattr(module, "init_process_group", None)
    if make is None or hasattr(make, "hvdprof_awaits"):
        return
    is_recorded = False

    def init_process_group(*args: object, **kwargs: object) -> object:
        nonlocal is_recorded
        made = make(*args, **kwargs)
        if not is_recorded:
            is_recorded = True
            try:
                recorder = __import__(DISTRIBUTED_RECORDER, fromlist=["record_training"])
                recorder.record_training(sys.modules["torch.distributed"])
            except Exception as error:
                _report(error)
        return made

    # As functools.wraps, which is not imported here.
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(init_process_group, name, getattr(make, name))
    init_process_group.__dict__.update(make.__dict__, __wrapped__=make, hvdprof_awaits=True)
    # Where torch was loaded before, also in the modules that have imported it by name.
    for home in (GROUPS, "torch.distributed", "torch.distributed.device_mesh"):
        names = vars(sys.modules[home]) if home in sys.modules else {}
        if names.get("init_process_group") is make:
            names["init_process_group"] = init_process_group


def _await_update(module: "ModuleType") -> None:
    """Say at the first update of a script where nothing can be recorded."""
    torch = sys.modules["torch"]
    is_over = False

    def look(_optimizer: object, _args: object, _kwargs: object) -> None:
        nonlocal is_over
        if is_over or torch.compiler.is_compiling():
            return
        is_over = True
        if not _has_engine():
            _give_notice()

    hook = getattr(module, "register_optimizer_step_post_hook", None)
    if hook is not None:
        hook(look)


def watch_workers(module: "ModuleType") -> None:
    """Sample the processes that ``multiprocessing.process`` makes from here on, from their begin.

    A second call does nothing.
    """
    run = getattr(getattr(module, "BaseProcess", None), "_bootstrap", None)
    if run is None or hasattr(run, "hvdprof_samples"):
        return

    def bootstrap(*args: object, **kwargs: object) -> object:
        try:
            workers = __import__(WORKERS, fromlist=["start_worker"])
        except Exception as error:
            _report(error)
            return run(*args, **kwargs)
        workers.start_worker()
        try:
            return run(*args, **kwargs)
        finally:
            workers.stop_worker()

    bootstrap.__dict__.update(hvdprof_samples=True)
    module.BaseProcess._bootstrap = bootstrap


def _has_engine() -> bool:
    names = ("horovod.torch", "horovod.tensorflow", "torch.distributed")
    loaded = (sys.modules.get(name) for name in names)
    # A script that calls the recorder itself has more to come.
    return "hvdprof.collect" in sys.modules or any(
        getattr(module, "is_available", lambda: True)()
        and getattr(module, "is_initialized", bool)()
        for module in loaded
    )


def _give_notice() -> None:
    folder = os.environ.get("HVDPROF_RECORDER_DIR", "")
    try:
        # The first of all ranks.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        os.close(os.open(f"{folder}/{NOTICE_FILE}", flags, 0o600))
    except FileExistsError:
        return
    except OSError:
        # Another host, which does not see the folder: its output is all that there is.
        pass
    if sys.stderr is not None:
        sys.stderr.write(f"hvdprof recorder: {NOTICE}\n")


def _record(module: "ModuleType") -> None:
    recorder = __import__(RECORDERS[module.__name__], fromlist=["record_training"])
    recorder.record_training(module)


def _report(error: Exception) -> None:
    if sys.stderr is not None:
        sys.stderr.write(
            f"hvdprof recorder: nothing is recorded: {type(error).__name__}: {error} "
            f"(is hvdprof installed for {sys.executable}?)\n"
        )
