"""Gradients that ``DistributedDataParallel`` reduces; the rank waits at the end of ``backward()``.

DDP has no call in which it waits: it asks the autograd engine for a callback at the end of
``backward()``, and in it waits for every bucket and copies it into the gradients. Such callbacks
run one after the other in the order in which they were asked for, once backward has computed
everything; one that was asked for before DDP's and one that was asked for after it bracket it.
"""

import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from hvdprof.collect.steps.step_marks import COLLECTIVE_PHASE, BucketMarks, StepMarks, harmless

Queue = Callable[[Callable[[], None]], None]

_HALF_WIDTH_HOOKS = ("fp16_compress", "bf16_compress")
_HALF_WIDTH = 2


def is_ddp(model: Any) -> bool:
    """Whether a model was wrapped by ``torch.nn.parallel.DistributedDataParallel``."""
    return hasattr(model, "reducer") and hasattr(model, "process_group")


class DdpHandover:
    """The handover to ``DistributedDataParallel``.

    Args:
        model: The wrapped model; it is not kept alive.
        queue: Asks the running ``backward()`` for a callback at its end; torch's own if not given.
    """

    blocks_in_step = False

    def __init__(self, model: Any, queue: Queue | None = None) -> None:
        self._model = weakref.ref(model)
        self._names = {id(one): name for name, one in model.module.named_parameters()}
        self._queue = queue or _end_of_backward
        self._is_queued = False
        self._begin: Any = None

    def name(self, parameter: Any) -> str | None:
        """Its name in the model inside."""
        return self._names.get(id(parameter))

    def sent_bytes(self, parameter: Any) -> int:
        """The bytes after compression by DDP's own hooks; any other hook counts as none."""
        model = self._model()
        if model is None or model.process_group.size() == 1:
            return 0
        hooks = [hook.__name__ for hook, _ in getattr(model, "_comm_hooks", ())]
        halved = any(name.startswith(_HALF_WIDTH_HOOKS) for name in hooks)
        width = parameter.element_size()
        return int(parameter.numel() * (min(width, _HALF_WIDTH) if halved else width))

    def seen_bytes(self) -> Mapping[int, int]:
        """Nothing: DDP does not keep what its hooks hand over."""
        return {}

    def begin_step(self) -> None:
        """Expect a new backward, also where the last one was left by an exception."""
        self._is_queued = False

    def bracket(self, marks: StepMarks) -> list[Callable[[], None]]:
        """Bracket DDP's callback in every backward that reaches the first parameter."""

        def expect(_parameter: Any) -> None:
            # DDP cannot have asked for its callback: this gradient is still missing there.
            if not self._is_queued:
                self._is_queued = True
                self._queue(harmless(marks, begin))

        def begin() -> None:
            self._begin = marks.enter(COLLECTIVE_PHASE)
            marks.engine_waits(1)
            self._queue(harmless(marks, end))

        def end() -> None:
            self._is_queued = False
            marks.engine_waits(-1)
            marks.add_blocked(self._begin, marks.leave(COLLECTIVE_PHASE))

        model = self._model()
        parameters = () if model is None else model.module.named_parameters()
        first = next((one for _, one in parameters if one.requires_grad), None)
        if first is None:
            return []
        return [first.register_post_accumulate_grad_hook(harmless(marks, expect)).remove]


def recorded_hook(hook: Any, marks: StepMarks, now: Callable[[], Any]) -> Any:
    """A communication hook of DDP that also marks when each bucket was handed over and reduced."""

    def hand_over(bucket: Any) -> BucketMarks:
        one = BucketMarks(tuple(bucket.parameters()), now())
        marks.buckets.append(one)
        return one

    handed_over, take = harmless(marks, hand_over), harmless(marks, now)

    # DDP reads the name and the signature of a hook.
    @functools.wraps(hook)
    def recording(state: Any, bucket: Any) -> Any:
        if not marks.is_open:
            return hook(state, bucket)
        one = handed_over(bucket)

        def reduced(done: Any) -> Any:
            if one is not None:
                one.end = take()
            return done.value()

        return hook(state, bucket).then(reduced)

    return recording


def _end_of_backward(callback: Callable[[], None]) -> None:
    sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(callback)
