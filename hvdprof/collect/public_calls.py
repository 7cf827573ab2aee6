"""The calls of ``hvdprof.collect``, which describes them."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from hvdprof.collect import _hooks
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto.startup.hvdprof_import_hook import watch_workers
from hvdprof.collect.engines.ddp_reduction import CommHook
from hvdprof.collect.engines.torch_types import Model, Optimizer
from hvdprof.collect.host_facts import Identity
from hvdprof.collect.session import Piece, Session
from hvdprof.collect.session_factory import (
    RECORDER_DIR,
    faults_from_environment,
    open_session,
    own_identity,
    with_faults,
)
from hvdprof.collect.steps.step_marks import Number
from hvdprof.rundir.launch_format import AUTORECORD
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.fault_plan import FAULTS


def start(
    *,
    rank: int | None = None,
    size: int | None = None,
    local_rank: int | None = None,
    local_size: int | None = None,
    device: str = "cpu",
    session: int | None = None,
) -> None:
    """Begin to record; to be called on every rank after ``hvd.init()``.

    Where `hvdprof run` records the script already, this does nothing. Under
    ``DistributedDataParallel`` it is called after ``init_process_group()``.

    Args:
        rank: As ``hvd.rank()``. Missing values come from Horovod where it is initialised, else
            from the environment that horovodrun, Open MPI, MPICH, torchrun or Slurm set.
        size: As ``hvd.size()``.
        local_rank: As ``hvd.local_rank()``.
        local_size: As ``hvd.local_size()``.
        device: Where the model computes: ``cpu``, ``cuda`` or ``cuda:<index>``.
        session: Number of the session of an elastic job, the same on every rank. Each session has
            a folder of its own, since ranks are renumbered in each.
    """
    folder = os.environ.get(RECORDER_DIR)
    if not folder and not os.environ.get(FAULTS):
        return
    if session is None and PROCESS.marked_step is not None and _hooks.is_active():
        return
    if PROCESS.marked_step is None and os.environ.get(AUTORECORD):
        # Only below `hvdprof run`, and made of the calls of this module.
        from hvdprof.collect.auto.process_recording import govern_script

        govern_script()
    known = own_identity()
    identity = Identity(
        known.rank if rank is None else rank,
        known.size if size is None else size,
        known.local_rank if local_rank is None else local_rank,
        known.local_size if local_size is None else local_size,
    )
    if session is None:
        stop()
    else:
        # The session before has ended, maybe without a recording: its ranks cannot be asked.
        PROCESS.install(Session())
    if not folder:
        with_faults(faults_from_environment(), identity, PROCESS.install)(Session())
        return
    place = Path(folder)
    if session is not None:
        place = PassPaths(place.parent).session(session).recorder_folder
    # Torch has loaded it; a script without it has no workers.
    if "multiprocessing.process" in sys.modules:
        watch_workers(sys.modules["multiprocessing.process"])
    open_session(place, identity, device, PROCESS.install)


def watch(model: Model, optimizer: Optimizer) -> None:
    """Record when each gradient is ready and how long ``optimizer.step()`` blocks.

    To be called once the optimizer is complete (after ``hvd.DistributedOptimizer``) and before
    the first step of the segment. Plain torch optimizers are fine; they never block. Under
    ``DistributedDataParallel`` the rank blocks at the end of ``backward()``.

    Args:
        model: The ``torch.nn.Module`` whose names the gradients get; the
            ``DistributedDataParallel`` around it where there is one.
        optimizer: The optimizer that the script steps. A second model with its own optimizer is
            watched by a second call.
    """
    PROCESS.session.gradients.watch(model, optimizer)


def unwatch() -> None:
    """Remove all hooks from models and optimizers; the end of a segment does so too."""
    PROCESS.session.gradients.unwatch()


def segment(segment_id: str) -> AbstractContextManager[None]:
    """A part of the training with a model and settings of its own; parts do not nest.

    Steps outside any segment belong to one named ``main``; below `hvdprof run` all steps do.
    """
    if PROCESS.marked_step is not None:
        return nullcontext()
    return PROCESS.session.segment(segment_id)


def step(*, samples: int = 0, warmup: bool = False) -> AbstractContextManager[None]:
    """One step: from the loading of data to the end of ``optimizer.step()``.

    A step that an exception leaves is not recorded. `hvdprof run` marks the first steps as warm-up
    and may end the script after the last step that the user asked for.

    Args:
        samples: Samples that this rank trains on in the step.
        warmup: Exclude the step from results.
    """
    if PROCESS.marked_step is not None:
        return PROCESS.marked_step(samples, warmup)
    return PROCESS.session.steps.step(samples, warmup)


def phase(name: str) -> AbstractContextManager[None]:
    """A phase of the step: ``data``, ``forward``, ``backward`` or a name of your own.

    ``optimizer`` is recorded by ``watch`` and needs no call. A phase within a phase interrupts
    it. Outside a step nothing is recorded, so code shared with validation may use phases.
    """
    return PROCESS.session.steps.phase(name)


def mark(name: str) -> None:
    """Record a named moment, such as the start of an epoch."""
    PROCESS.session.lines.mark(name)


def loss(value: Number) -> None:
    """Record the training loss of the open step: a number or a tensor with one element.

    A tensor is read at the end of the step, on a GPU a step later, without making it wait.
    """
    PROCESS.session.steps.loss(value)


def blocked() -> AbstractContextManager[None]:
    """Time in which the rank waits for other ranks, such as in a collective of the script."""
    return PROCESS.session.waits.blocked()


def bucket_hook(hook: CommHook) -> CommHook:
    """A communication hook of DDP that also records when each bucket of gradients was reduced.

    To be given to ``register_comm_hook`` in place of ``hook``. It costs a little per bucket, so
    it is meant for runs that look at collectives and not at throughput.

    Args:
        hook: A hook as ``DistributedDataParallel.register_comm_hook`` takes it, such as
            ``default_hooks.allreduce_hook``.
    """
    return PROCESS.session.gradients.bucket_hook(hook)


def passed(pieces: Sequence[Piece]) -> None:
    """Phases of the open step that are over: name, begin and end by ``time.monotonic_ns()``.

    For times that were taken elsewhere. ``collective`` counts as blocked. Only where the model
    computes on the host.
    """
    PROCESS.session.steps.passed(pieces)


def timeline(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Let Horovod write its timeline to a file within the context, complete at its end.

    To be entered on every rank, with ``HOROVOD_TIMELINE=DYNAMIC`` in the environment of all.
    """
    return PROCESS.session.lines.timeline(Path(path))


def stop() -> None:
    """End the recording; to be called on every rank, when the training is over.

    Ranks on several hosts compare their clocks once more, so a rank waits here for the others.
    """
    PROCESS.session.stop()
