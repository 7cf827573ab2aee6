"""FLOPs of one warm-up step, by the formulas of torch's ``FlopCounterMode``, by precision.

The count takes many times what a step takes, so no measured step has it. It is given as samples of
the GPU, or of the rank without one: each rank has its own batch.
"""

import contextlib
import importlib
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

from hvdprof.collect.devices.sample_window import Source, Values
from hvdprof.collect.devices.torch_device import TorchDevice
from hvdprof.rundir.recording.sample_format import DEVICE, FLOP, OTHER

COUNTED_STEP = 1
"""The first step makes what later ones find made."""


class StepFlops(Source):
    """Counts the FLOPs of the second step of each segment, where that is a warm-up step.

    Args:
        gpu: The GPU on which torch computes.
        report: Called with a message where nothing is counted.
    """

    scope = DEVICE

    def __init__(self, gpu: TorchDevice, report: Callable[[str], None]) -> None:
        self._gpu, self._report = gpu, report
        self._values: Values = {}
        self._by_precision: Counter[str] = Counter()
        self._mode: AbstractContextManager[object] | None = None

    def begin(self, step: int, *, is_warmup: bool) -> None:
        """A step begins, in the thread that trains; raises nothing."""
        self.end()
        if step == 0:
            self._values = {}
        if step != COUNTED_STEP:
            return
        try:
            if not is_warmup:
                raise RuntimeError("the second step is no warm-up step")
            self._start()
        except Exception as error:
            self._give_up(f"{error}")

    def end(self) -> None:
        """The step ends, in the same thread; raises nothing."""
        if self._mode is None:
            return
        mode, self._mode = self._mode, None
        try:
            mode.__exit__(None, None, None)
            dynamo = sys.modules.get("torch._dynamo.utils")
            if dynamo is not None and dynamo.counters["stats"]:
                raise RuntimeError("torch.compile hides operations from the counter")
            if not self._by_precision:
                raise RuntimeError("the step has no operation that the counter knows")
            number = self._gpu.number()
            cuda = sys.modules["torch"].cuda
            self.device = str(cuda.get_device_name(number)) if number >= 0 else ""
            self._values = {FLOP[name]: float(n) for name, n in self._by_precision.items()}
        except Exception as error:
            self._give_up(f"{error}")

    def read(self) -> Values:
        """FLOPs per step by precision; none before they are counted."""
        return self._values

    def _start(self) -> None:
        if "torch" not in sys.modules:
            raise RuntimeError("TensorFlow has no counter that sees one step")
        counter = importlib.import_module("torch.utils.flop_counter")
        self._by_precision.clear()
        mapping = {
            operation: self._counted(str(operation), formula)
            for operation, formula in counter.flop_registry.items()
        }
        mode = counter.FlopCounterMode(display=False, custom_mapping=mapping)
        mode.__enter__()
        self._mode = mode

    def _counted(self, operation: str, formula: Callable[..., int]) -> Callable[..., int]:
        """The formula of an operation, which also adds its FLOPs to those of its precision."""

        def count(*tensors: object, **named: object) -> int:
            flops = 0
            # A failure here would be one of the training.
            with contextlib.suppress(Exception):
                flops = int(formula(*tensors, **named))
                self._by_precision[_precision(operation, tensors[0])] += flops
            return flops

        count._get_raw = True  # type: ignore[attr-defined]
        return count

    def _give_up(self, why: str) -> None:
        self._values = {}
        with contextlib.suppress(Exception):
            self._report(f"no FLOPs are counted: {why}")


def _precision(operation: str, tensor: object) -> str:
    """That in which an operation on a tensor computes."""
    name = str(getattr(tensor, "dtype", "")).removeprefix("torch.")
    if name.startswith("float8"):
        return "fp8"
    short = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    precision = short.get(name, OTHER)
    if precision != "fp32" or not getattr(tensor, "is_cuda", False):
        return precision
    torch, device = sys.modules["torch"], getattr(tensor, "device", None)
    if torch.version.hip or torch.cuda.get_device_capability(device)[0] < 8:
        return precision
    is_convolution = "convolution" in operation or "conv2d" in operation
    allowed = (torch.backends.cudnn if is_convolution else torch.backends.cuda.matmul).allow_tf32
    return "tf32" if allowed else precision
