"""Records the training of an unmodified script that reduces by ``torch.distributed``.

It waits for a process group and for the first update of an optimizer that trains a model inside
``DistributedDataParallel``, or one sharded by ``fully_shard``. In a script without either, the
first update after a collective of all ranks begins the recording. Data, forward and backward passes
and updates are seen as in ``autorecord``. A failure in here ends the recording and never the
training.

A thread of Gloo gives back a Python object with the last reduction that it has done. Where it wants
the interpreter's lock for that while the interpreter ends, Python ends the thread, and C++ ends the
process with SIGABRT (torch 2.13; also without hvdprof). A thread that is behind gets its time here.
"""

import atexit
import contextlib
import functools
import gc
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto.autorecord import AutoRecorder
from hvdprof.collect.auto.ddp_arguments import DdpNotes, changed_arguments, write_flight_dump
from hvdprof.collect.auto.discovery import Nameless
from hvdprof.collect.engines.ddp_reduction import DdpModel, is_fsdp, is_sharded
from hvdprof.collect.engines.torch_collectives import COLLECTIVES
from hvdprof.collect.engines.torch_types import Model, Optimizer, parameters_of
from hvdprof.collect.guarded_context import print_problem, replace_call
from hvdprof.collect.session_factory import own_identity
from hvdprof.rundir.launch_format import AutoSettings
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, DDP_ENGINE, FSDP_ENGINE

GLOO_THREAD = "pt_gloo_runloop"
LONGEST_REST_S = 1.0
_LOOK_S = 0.01
_LOOKS_AT_REST = 3
_RUNNING = "R"
OWN_TASKS = Path("/proc/self/task")
P = ParamSpec("P")
R = TypeVar("R")


def wait_for_gloo(
    tasks: Path = OWN_TASKS,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Sleep, without the interpreter's lock, until no thread of Gloo has run at three looks.

    Returns at once where there is none, and after ``LONGEST_REST_S`` in any case.

    Args:
        tasks: A folder per thread of this process, as Linux has it.
        sleep: Releases the lock.
        clock: Seconds.
    """
    until, num_at_rest = clock() + LONGEST_REST_S, 0
    while num_at_rest < _LOOKS_AT_REST and clock() < until:
        states = [state for name, state in _threads(tasks) if name == GLOO_THREAD]
        if not states:
            return
        num_at_rest = 0 if _RUNNING in states else num_at_rest + 1
        sleep(_LOOK_S)


def _threads(tasks: Path) -> list[tuple[str, str]]:
    """Name and state of each thread; none where the system does not say."""
    threads = []
    try:
        for task in tasks.iterdir():
            _, _, text = (task / "stat").read_text(encoding="utf-8").partition("(")
            name, _, rest = text.rpartition(")")
            threads.append((name, rest.split()[0]))
    except (OSError, IndexError):
        # A thread that has just ended, too: it is asked for again.
        return threads
    return threads


class DistributedRecorder(AutoRecorder):
    """The recording of one process of ``torch.distributed``.

    Args:
        distributed: The module ``torch.distributed``, whose process group has been made.
        settings: What `hvdprof run` asked for.
    """

    def __init__(self, distributed: ModuleType, settings: AutoSettings) -> None:
        # Horovod writes that one, and is not there.
        super().__init__(None, replace(settings, timeline=""))
        self._distributed = distributed
        self._ddp = DdpModels(self.fails)

    def hook_distributed(self) -> None:
        """Replace the functions of ``torch.distributed`` that a script calls."""
        self._ddp.hook(sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel)
        replace_call(self._distributed, "destroy_process_group", self._destroying)
        COLLECTIVES.hook()
        COLLECTIVES.listener = self._collective_called
        self._updates.hook()
        # Before the end of a recording is registered, so it comes after it.
        atexit.register(wait_for_gloo)

    def _collective_called(self) -> None:
        if self._updates.is_looking:
            self.guarded(self._updates.reduced)

    def trains(self, optimizer: Optimizer, *, is_reduced: bool) -> bool:
        """Whether the first update of an optimizer begins the recording."""
        if self._ddp:
            return self._ddp.model_of(optimizer) is not None
        return is_fsdp(None, optimizer) or is_reduced

    def add_first(self, optimizer: Optimizer) -> None:
        """Record an optimizer, and those of the other wrapped models, from here on."""
        PROCESS.engine = self._engine_of(optimizer)
        if not self._ddp:
            self._optimizers.add(optimizer, is_watched=True)
            return
        for found in self._ddp.optimizers(sys.modules["torch"], optimizer):
            self._optimizers.add(found, is_watched=True)

    def _engine_of(self, optimizer: Optimizer) -> str:
        if self._ddp:
            return DDP_ENGINE
        return FSDP_ENGINE if is_fsdp(None, optimizer) else COLLECTIVES_ENGINE

    def model_of(self, optimizer: Optimizer) -> Model:
        """What names the gradients of an optimizer, and how they are reduced."""
        wrapped = self._ddp.model_of(optimizer)
        if wrapped is not None:
            # DDP itself is a module, too.
            return wrapped  # type: ignore[return-value]
        return fsdp_model_of(optimizer) or Nameless()

    def end(self) -> None:
        """Complete the recording, and write the Flight Recorder where that is asked for."""
        if not self.is_over() and self.has_begun:
            write_flight_dump(own_identity().rank)
        super().end()

    def _destroying(self, destroy: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(destroy)
        def end_and_destroy(*args: P.args, **kwargs: P.kwargs) -> R:
            group = args[0] if args else kwargs.get("group")
            # The clocks of several hosts are compared through the store of the main group.
            if group is None or group is self._distributed.group.WORLD:
                self.end()
            return destroy(*args, **kwargs)

        return end_and_destroy


def record_training(distributed: ModuleType) -> None:
    """Hook ``torch.distributed`` as `hvdprof run` asked for; nothing where that fails."""
    try:
        recorder = DistributedRecorder(distributed, AutoSettings.from_environment())
        recorder.hook_distributed()
        if PROCESS.begin_for_script is None:
            PROCESS.begin_for_script = recorder.begin_for_script
    except Exception as error:
        print_problem(f"nothing is recorded: {type(error).__name__}: {error}")


class DdpModels:
    """Wrapped models in the order in which the script made them, none of them kept alive."""

    def __init__(self, fails: Callable[[Exception], None]) -> None:
        self._fails = fails
        self._notes = DdpNotes()
        self._made: list[weakref.ref[DdpModel]] = []

    def hook(self, kind: Any) -> None:
        """Note each model that the class, or a subclass of it, wraps from here on.

        It is wrapped with the arguments that the launch asks for.
        """
        make = kind.__init__

        @functools.wraps(make)
        def make_and_note(model: Any, *args: object, **kwargs: object) -> None:
            # Wrong arguments are refused by the class itself.
            with contextlib.suppress(TypeError):
                args, kwargs = changed_arguments(make, args, kwargs)
            make(model, *args, **kwargs)
            try:
                self._made.append(weakref.ref(model))
                self._notes.wrapped(model, make, args, kwargs)
            except Exception as error:
                self._fails(error)

        kind.__init__ = make_and_note

    def __bool__(self) -> bool:
        return bool(self._made)

    def model_of(self, optimizer: Optimizer) -> DdpModel | None:
        """The model that holds most of the parameters that an optimizer trains; None without."""
        trained = {
            id(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad
        }
        shares = [
            (sum(id(one) in trained for _, one in model.module.named_parameters()), model)
            for made in self._made
            if (model := made()) is not None
        ]
        most, model = max(shares, key=lambda share: share[0], default=(0, None))
        return model if most else None

    def optimizers(self, torch: ModuleType, first: Optimizer) -> list[Optimizer]:
        """The optimizers that train wrapped models, ``first`` in front.

        An object of a framework around another optimizer is not a further one.
        """
        found = [first]
        taken = {id(parameter) for parameter in parameters_of(first)}
        for complete_optimizer in _complete_optimizers(torch):
            parameters = {id(parameter) for parameter in parameters_of(complete_optimizer)}
            if parameters & taken or self.model_of(complete_optimizer) is None:
                continue
            taken |= parameters
            found.append(complete_optimizer)
        return found


def _complete_optimizers(torch: ModuleType) -> Iterable[Any]:
    base = torch.optim.Optimizer
    for instance in gc.get_objects():
        # By its type: an object may answer for its class in a way of its own.
        if issubclass(type(instance), base) and "_optimizer_step_post_hooks" in vars(instance):
            yield instance


def fsdp_model_of(optimizer: Optimizer) -> Model | None:
    """The outermost sharded module whose parameters an optimizer trains.

    Of several it is the one with most of them. None where no sharded module has any, or where the
    parameters are not sharded.
    """
    if not is_fsdp(None, optimizer):
        return None
    trained = {id(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad}
    largest, found = 0, None
    for instance in gc.get_objects():
        # A module whose constructor is still running has no parameters to ask for.
        if not is_sharded(type(instance)) or "_parameters" not in vars(instance):
            continue
        num = sum(id(parameter) in trained for _, parameter in instance.named_parameters())
        if num > largest:
            largest, found = num, instance
    return found
