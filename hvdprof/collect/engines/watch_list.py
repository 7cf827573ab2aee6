"""The optimizers that are watched, some for a segment and some until the end.

Tested by tests/collect/test_recorder.py.
"""

from collections.abc import Iterator

from hvdprof.collect.engines.gradient_watch import GradientWatch
from hvdprof.collect.engines.torch_types import Model, Optimizer
from hvdprof.collect.steps.step_marks import BucketMarks, StepMarks
from hvdprof.collect.steps.step_writer import MarkedBucket
from hvdprof.collect.steps.time_source import Mark, TimeSource
from hvdprof.rundir.recording.recorder_format import Tensor


class WatchList:
    """Gradients of several models count as those of one, in the order of their watches.

    Args:
        source: Where marks come from.
        marks: The marks of the open step.
    """

    def __init__(self, source: TimeSource, marks: StepMarks) -> None:
        self._source = source
        self._marks = marks
        self._lasting: list[GradientWatch] = []
        self._of_segment: list[GradientWatch] = []

    def __iter__(self) -> Iterator[GradientWatch]:
        return iter(self._lasting + self._of_segment)

    def add(self, model: Model, optimizer: Optimizer, *, lasts: bool) -> None:
        """Attach to an optimizer, until ``detach_segment`` or, if it lasts, ``detach``."""
        watch = GradientWatch(model, optimizer, self._source, self._marks)
        (self._lasting if lasts else self._of_segment).append(watch)

    def has(self, optimizer: Optimizer) -> bool:
        """Whether an optimizer is watched."""
        return any(watch.is_of(optimizer) for watch in self)

    def begin_step(self) -> None:
        """Forget the marks of the step before."""
        for watch in self:
            watch.begin_step()

    def declared(self) -> list[Tensor]:
        """The watched tensors as the recorder file has them."""
        return [tensor for watch in self for tensor in watch.declared()]

    def ready(self) -> list[Mark | None]:
        """The marks at which gradients of the step became ready; None for those that did not."""
        return [mark for watch in self for mark in watch.ready]

    def readiness(self) -> list[tuple[str, bool]]:
        """The names of the watched tensors, and whether they are ready; for any thread."""
        return [
            (tensor.name, mark is not None)
            for watch in self
            for tensor, mark in zip(watch.tensors, tuple(watch.ready), strict=False)
        ]

    def placed(self, bucket: BucketMarks) -> MarkedBucket:
        """A bucket with the places of its gradients among all that are watched."""
        members: list[int] = []
        before = 0
        for watch in self:
            members += [before + place for place in watch.members(bucket)]
            before += len(watch.tensors)
        return bucket.begin, bucket.end, members

    def detach_segment(self) -> None:
        """Remove the hooks that are there for the segment."""
        while self._of_segment:
            self._of_segment.pop().remove()

    def detach(self) -> None:
        """Remove every hook."""
        self.detach_segment()
        while self._lasting:
            self._lasting.pop().remove()
