"""The plan of a pass: the segments that one launch of the training processes executes.

The launcher writes it, ``hvdprof.bench_models.train`` reads it in every rank. One launch costs
seconds before the first step, so a pass holds several segments, each a model with its toggles.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.rundir.json_codec import read_json, to_text
from hvdprof.rundir.written_file import file_mode, write_whole

PLAN_SCHEMA_VERSION = 1

TORCH_ENGINE = "torch"
HOROVOD_ENGINE = "horovod"
DDP_ENGINE = "ddp"
DATA_PARALLEL_ENGINE = "data-parallel"
FSDP_ENGINE = "fsdp"
COLLECTIVES_ENGINE = "collectives"

TORCH_DISTRIBUTED_ENGINES = (DDP_ENGINE, FSDP_ENGINE, COLLECTIVES_ENGINE)
"""Those of a script that ``torch.distributed`` connects.

A script that ``torchrun`` starts is planned as the last one: its ranks name the engine.
"""

TF_MULTIWORKER, TF_MIRRORED = "tf-multiworker", "tf-mirrored"
TF_CENTRAL_STORAGE, TF_PARAMETER_SERVER = "tf-central-storage", "tf-parameter-server"
TF_ENGINES = (TF_MULTIWORKER, TF_MIRRORED, TF_CENTRAL_STORAGE, TF_PARAMETER_SERVER)
"""Strategies of ``tf.distribute``. A script of ``--launcher tf`` is planned as the first one."""

TF_OF_ONE_PROCESS = (TF_MIRRORED, TF_CENTRAL_STORAGE)
"""Those that have all replicas in one process, which records as rank 0."""

RECORDED_ONCE = (DATA_PARALLEL_ENGINE, *TF_OF_ONE_PROCESS, TF_PARAMETER_SERVER)
"""Those of which one process records as rank 0: it, or the coordinator of the workers."""

KERAS_TWIN = "keras-"
KERAS_TWINS = ("mnist", "resnet18")
"""Reference models with a twin in Keras, ``keras-mnist``: what strategies train in the bench."""

OTHER_ENGINES = (*TORCH_DISTRIBUTED_ENGINES, DATA_PARALLEL_ENGINE, *TF_ENGINES)
"""What reduces without Horovod: it writes no timeline of Horovod's."""


def num_beside(engine: str) -> int:
    """The processes beside the ranks: coordinator and parameter server of that strategy, else 0."""
    return 2 if engine == TF_PARAMETER_SERVER else 0


LEAST_STEPS_OF_RESULT = 20
"""Steps after the warm-up from which on a launch that was cut off has a result."""

EMULATED = "emulate:"
MAX_EMULATED_S = 600.0


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model as users name it: ``resnet50``, ``emulate:resnet50@0.2``, ``emulate:vgg16:128@0.2``.

    ``emulated_step_s`` is how long forward and backward wait instead of computing; None for a
    model that computes. Gradients of an emulated model have 1 / ``divisor`` of their elements.
    """

    reference: str
    emulated_step_s: float | None
    divisor: int = 1

    @classmethod
    def parse(cls, text: str) -> "ModelName":
        """The parts of a name; the reference model may be unknown.

        Raises:
            UsageError: An emulated model has no usable length of a step, or no usable divisor.
        """
        if not text.startswith(EMULATED):
            return cls(text, None)
        scaled, _, length = text.removeprefix(EMULATED).partition("@")
        reference, colon, divisor = scaled.partition(":")
        if colon and not (divisor.isascii() and divisor.isdecimal() and int(divisor) > 0):
            raise UsageError(
                f"Model {text!r} needs a whole number above 0 behind {reference!r}, not "
                f"{divisor!r}.",
                hint=f"{EMULATED}{reference}:128@0.2 has gradients of 1/128 of the size.",
            )
        try:
            seconds = float(length)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= MAX_EMULATED_S:
            raise UsageError(
                f"Model {text!r} needs the seconds of a step, above 0 and at most "
                f"{MAX_EMULATED_S:g}.",
                hint=f"{EMULATED}{scaled}@0.2 waits 0.2 s per step.",
            )
        return cls(reference, seconds, int(divisor or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One model with one setting of the toggles, trained within one pass.

    ``batch_size`` counts samples per rank and step, ``image_size`` the pixels of an edge.
    ``num_steps`` and ``max_seconds`` bound the measured steps after ``num_warmup_batches``:
    the first bound that is reached holds, and at least one is given. ``timeline`` asks for
    Horovod's timeline around the measured steps.
    """

    id: str
    engine: str
    model: str
    compression: str
    reduction: str
    batch_size: int
    image_size: int
    num_warmup_batches: int
    num_steps: int | None
    max_seconds: float | None
    timeline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What every rank of a pass executes, segment after segment.

    ``data`` is ``synthetic``, ``digits`` or ``idx`` (MNIST's own files in ``data_dir``); ``device``
    is ``cpu`` or ``cuda``; ``pin_cores`` gives each rank ``num_threads`` cores of its own.
    ``bucket_cap_mb`` bounds the buckets of DDP in MiB, None for its own default.
    """

    schema_version: int
    pass_id: str
    mode: str
    size: int
    num_threads: int
    pin_cores: bool
    device: str
    data: str
    data_dir: str | None
    seed: int
    segments: list[Segment]
    bucket_cap_mb: float | None = None

    def write(self, path: Path) -> None:
        """Write the plan as JSON."""
        write_whole(path, to_text(self), mode=file_mode(path))

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """The plan that a file holds.

        Raises:
            UnreadableInputError: The file is missing or damaged.
        """
        return read_json(cls, path)
