"""The calls that hvdprof's own hooks make in a process that it records; not for scripts."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from hvdprof.collect.session import Session
from hvdprof.collect.standing import LoopStanding
from hvdprof.collect.steps.step_marks import OF_GRADIENTS, Collective
from hvdprof.rundir.recording.recorder_format import GRAD_REDUCE, USER, RecorderLine

MarkedStep = Callable[[int, bool], AbstractContextManager[None]]


class ProcessSession:
    """What takes the calls of this process.

    ``session`` records, or does nothing. ``marked_step`` makes each step of a script that
    `hvdprof run` records, from its samples and whether it is warm-up; None elsewhere.
    ``begin_for_script`` lets the recorder of `horovod.torch` begin where the script starts the
    recording itself, and says whether it does; None where it does not wait. ``engine`` is what
    reduces under ``torch.distributed``, empty where that is not known. ``loop_standing`` says
    where the rank is in its training loop, for any thread.
    """

    def __init__(self) -> None:
        self.session = Session()
        self.marked_step: MarkedStep | None = None
        self.begin_for_script: Callable[[], bool] | None = None
        self.engine = ""
        self.loop_standing: Callable[[], LoopStanding] = LoopStanding

    def install(self, session: Session) -> None:
        """Let a session take the calls from here on."""
        self.session = session


PROCESS = ProcessSession()


def is_active() -> bool:
    """Whether this process is recorded, or faults are injected into it."""
    return type(PROCESS.session) is not Session


def mark_steps_by(marked_step: MarkedStep) -> None:
    """Let a function of samples and warm-up make every ``step()`` of the script."""
    PROCESS.marked_step = marked_step


def recorded_step(samples: int, warmup: bool) -> AbstractContextManager[None]:
    """A step as it is to be recorded, for the function that makes the steps of the script."""
    return PROCESS.session.steps.step(samples, warmup)


def samples(number: int) -> None:
    """Count more samples into the open step, where they are unknown at its begin."""
    PROCESS.session.steps.samples(number)


def evaluation(*, after_training: bool) -> AbstractContextManager[None]:
    """A forward pass for evaluation in the open step, which is marked as one with an evaluation.

    Args:
        after_training: Whether a pass for training came before it in the step. Otherwise all of
            the step so far belongs to the evaluation.
    """
    return PROCESS.session.steps.evaluation(after_training=after_training)


def end_evaluation() -> None:
    """Record the open step as an evaluation after the last step: the training is over."""
    PROCESS.session.steps.end_evaluation()


def extend_forward() -> None:
    """Let the forward pass of the open step reach to this moment: a backward pass begins."""
    PROCESS.session.steps.extend_forward()


def gradients_blocked() -> AbstractContextManager[None]:
    """Time in which the rank waits for reduced gradients, in a call that the script makes."""
    return PROCESS.session.waits.blocked(OF_GRADIENTS, GRAD_REDUCE)


def blocked_unseen() -> None:
    """Record the blocked time of the open step as missing, such as that of a graph on a GPU."""
    PROCESS.session.waits.unseen()


def blocked_in(collective: Collective, kind: str = USER) -> AbstractContextManager[None]:
    """Time in which the rank waits for others in a collective of the script; see ``WAIT_KINDS``."""
    return PROCESS.session.waits.blocked(collective, kind)


def count_waits(change: int) -> None:
    """A collective begins (1) or ends (-1) whose time is not recorded.

    The rank reports the wait while it is blocked (docs/howto/stalls.md).
    """
    PROCESS.session.waits.count(change)


def note(line: RecorderLine) -> None:
    """Write a line into the recorder file."""
    PROCESS.session.lines.note(line)


def abandon() -> None:
    """End the recording of a rank that fails, without waiting for other ranks.

    The segment has no end in the file, so that it does not pass for complete.
    """
    PROCESS.session.abandon()


def give_up(error: Exception) -> None:
    """End the recording after a failure of a hook, reported as a problem; the rank trains on."""
    PROCESS.session.give_up(error)


def break_off() -> None:
    """End the recording of a rank whose peers are gone: complete, without comparing clocks."""
    PROCESS.session.break_off()
    PROCESS.install(Session())
