"""The recorder that a training script calls: when each rank did what, and how long it waited.

The lines to add to a Horovod script::

    from hvdprof import collect

    collect.start()                           # after hvd.init()
    collect.watch(model, optimizer)           # after hvd.DistributedOptimizer(...)
    for images, labels in loader:
        with collect.step(samples=len(images)):
            ...                               # forward, backward, optimizer.step()
    collect.stop()                            # on every rank, when training is over

Without ``HVDPROF_RECORDER_DIR`` in the environment all of this does nothing. With it, every rank
writes ``rank-<rank>.jsonl`` into that folder (docs/reference/run_directory.md). A failure of the
recorder ends the recording and never the training (docs/explain/recorder.md).
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from hvdprof.collect.auto.auto_settings import AUTORECORD
from hvdprof.collect.faults.fault_plan import FAULTS
from hvdprof.collect.identity import Identity
from hvdprof.collect.session import Session
from hvdprof.collect.session_factory import (
    RECORDER_DIR,
    faults_from_environment,
    open_session,
    own_identity,
    with_faults,
)
from hvdprof.rundir.layout import PassPaths

MarkedStep = Callable[[int, bool], AbstractContextManager[None]]

__all__ = [
    "abandon",
    "blocked",
    "blocked_unseen",
    "break_off",
    "found_step",
    "give_up",
    "govern_steps",
    "is_active",
    "loss",
    "mark",
    "note",
    "passed",
    "phase",
    "samples",
    "segment",
    "start",
    "step",
    "stop",
    "timeline",
    "unwatch",
    "waits",
    "watch",
]

_session = Session()
_marked_step: MarkedStep | None = None


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

    Where `hvdprof run` has begun to record the script already, this does nothing.

    Under ``DistributedDataParallel`` it is called after ``init_process_group()``.

    Args:
        rank: As ``hvd.rank()``. What is not given is asked of Horovod where it is initialised,
            else of the environment that horovodrun, Open MPI, MPICH, torchrun or Slurm set.
        size: As ``hvd.size()``.
        local_rank: As ``hvd.local_rank()``.
        local_size: As ``hvd.local_size()``.
        device: Where the model computes: ``cpu``, ``cuda`` or ``cuda:<index>``.
        session: Number of the session of an elastic job, the same on every rank; sessions are
            recorded into folders of their own, since ranks are numbered anew in each.
    """
    folder = os.environ.get(RECORDER_DIR)
    if not folder and not os.environ.get(FAULTS):
        return
    if session is None and _marked_step is not None and is_active():
        return
    if _marked_step is None and os.environ.get(AUTORECORD):
        # Not needed but below `hvdprof run`, and made of the calls of this module.
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
        _set_session(Session())
    if not folder:
        with_faults(faults_from_environment(), identity, _set_session)(Session())
        return
    place = Path(folder)
    if session is not None:
        place = PassPaths(place.parent).session(session).recorder_folder
    open_session(place, identity, device, _set_session)


def watch(model: Any, optimizer: Any) -> None:
    """Record when each gradient is ready and how long ``optimizer.step()`` blocks.

    To be called once the optimizer is complete (after ``hvd.DistributedOptimizer``) and before
    the first step of the segment. Plain torch optimizers are fine; they never block. Under
    ``DistributedDataParallel`` the rank blocks at the end of ``backward()``.

    Args:
        model: The ``torch.nn.Module`` whose names the gradients get; where it is wrapped by
            ``DistributedDataParallel`` the wrapped one.
        optimizer: The optimizer that the script steps. A second model with its own optimizer is
            watched by a second call.
    """
    _session.watch(model, optimizer)


def unwatch() -> None:
    """Take all hooks off models and optimizers; the end of a segment does so too."""
    _session.unwatch()


def segment(segment_id: str) -> AbstractContextManager[None]:
    """A part of the training with a model and settings of its own; parts do not nest.

    Steps outside any segment belong to one named ``main``; below `hvdprof run` all steps do.
    """
    if _marked_step is not None:
        return nullcontext()
    return _session.segment(segment_id)


def step(*, samples: int = 0, warmup: bool = False) -> AbstractContextManager[None]:
    """One step: from the fetching of data to the end of ``optimizer.step()``.

    A step that an exception leaves is not recorded. `hvdprof run` marks the first steps as warm-up
    and may end the script behind the last one that it was asked for.

    Args:
        samples: Samples that this rank trains on in the step.
        warmup: The step is not to be counted in results.
    """
    if _marked_step is not None:
        return _marked_step(samples, warmup)
    return _session.step(samples, warmup)


def found_step(samples: int, warmup: bool) -> AbstractContextManager[None]:
    """A step as it is to be recorded, for what governs the steps of the script."""
    return _session.step(samples, warmup)


def govern_steps(marked_step: MarkedStep) -> None:
    """Let every ``step()`` of the script be made by a function of its samples and warm-up."""
    global _marked_step
    _marked_step = marked_step


def phase(name: str) -> AbstractContextManager[None]:
    """A phase of the step: ``data``, ``forward``, ``backward`` or a name of one's own.

    ``optimizer`` is recorded by ``watch`` and needs no call. A phase within a phase interrupts
    it. Outside a step nothing is recorded, so code shared with validation may keep its phases.
    """
    return _session.phase(name)


def mark(name: str) -> None:
    """Record a named moment, such as the start of an epoch."""
    _session.mark(name)


def note(kind: str, **values: Any) -> None:
    """Write a line of a kind of one's own into the recorder file."""
    _session.note(kind, **values)


def loss(value: Any) -> None:
    """Record the training loss of the open step: a number or a tensor with one element.

    A tensor is read at the end of the step, on a GPU a step later, without making it wait.
    """
    _session.loss(value)


def samples(number: int) -> None:
    """Count more samples into the open step, where they are not known at its begin."""
    _session.samples(number)


def blocked() -> AbstractContextManager[None]:
    """Time in which the rank stands still for other ranks, such as in a collective of its own."""
    return _session.blocked()


def blocked_unseen() -> None:
    """In the open step the rank may have stood still for others where nobody saw it.

    Its blocked time is recorded as missing then, such as that within a compiled graph on a GPU.
    """
    _session.blocked_unseen()


def bucket_hook(hook: Any) -> Any:
    """A communication hook of DDP that also records when each bucket of gradients was reduced.

    To be given to ``register_comm_hook`` in place of ``hook``. It costs a little of every bucket,
    so it is meant for runs that look at collectives and not at throughput.

    Args:
        hook: A hook as ``DistributedDataParallel.register_comm_hook`` takes it, such as
            ``default_hooks.allreduce_hook``.
    """
    return _session.bucket_hook(hook)


def passed(pieces: Sequence[tuple[str, int, int]]) -> None:
    """Phases of the open step that are over: name, begin and end by ``time.monotonic_ns()``.

    For times that were taken elsewhere, such as within a compiled graph. ``collective`` counts as
    blocked. Only where the model computes on the host.
    """
    _session.passed(pieces)


def waits(change: int) -> None:
    """A collective begins (1) or ends (-1) in which the rank stands and that nobody brackets.

    No time is recorded; the rank says so while it stands still (docs/howto/stalls.md).
    """
    _session.waits(change)


def is_active() -> bool:
    """Whether something is recorded, or faults are injected."""
    return type(_session) is not Session


def timeline(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Let Horovod write its timeline to a file within the context, complete at its end.

    To be entered on every rank, with ``HOROVOD_TIMELINE=DYNAMIC`` in the environment of all.
    """
    return _session.timeline(Path(path))


def abandon() -> None:
    """End the recording of a rank that fails, without waiting for other ranks.

    The segment has no end in the file, so that nobody takes it for complete.
    """
    _session.abandon()


def give_up(error: Exception) -> None:
    """End the recording after a failure in what calls it, told as a problem; the rank trains on."""
    _session.give_up(error)


def break_off() -> None:
    """End the recording of a rank whose peers are gone: complete, but clocks are not compared."""
    _session.break_off()
    _set_session(Session())


def stop() -> None:
    """End the recording; to be called on every rank, when the training is over.

    Ranks on several hosts compare their clocks once more, so a rank waits here for the others.
    """
    _session.stop()


def _set_session(session: Session) -> None:
    global _session
    _session = session
