"""What a launch and its ranks exchange: settings of the recorder, DDP's arguments, and turns.

A variable holds the value of one argument. The recorder in the ranks gives it to every call of the
constructor, so that a script is tuned without a change.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TypedDict

BUCKET_CAP = "HVDPROF_DDP_BUCKET_CAP_MB"
BUCKET_VIEW = "HVDPROF_DDP_GRADIENT_AS_BUCKET_VIEW"
STATIC_GRAPH = "HVDPROF_DDP_STATIC_GRAPH"
FIND_UNUSED = "HVDPROF_DDP_FIND_UNUSED_PARAMETERS"
FLIGHT_FOLDER = "HVDPROF_FLIGHT_FOLDER"
"""Environment variable: the folder of the files, set in trace passes of ``torch.distributed``."""

DDP_ARGUMENTS: Mapping[str, str] = {
    BUCKET_CAP: "bucket_cap_mb",
    BUCKET_VIEW: "gradient_as_bucket_view",
    STATIC_GRAPH: "static_graph",
    FIND_UNUSED: "find_unused_parameters",
}
"""The argument of the constructor that each variable sets."""

DEFAULT = "default"
"""Of ``BUCKET_CAP``: the buckets that DDP makes where the script gives no size."""

FACTS_FILE = "ddp.json"
"""In the folder of the recorder files."""

_LARGEST_CAP_MB = 2.0**20
_SWITCHES = {"0": False, "1": True}
TURNS_FILE = "turns.jsonl"

AUTORECORD = "HVDPROF_AUTORECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class DdpFacts:
    """How a script wraps the largest of its models, as rank 0 saw it.

    Attributes:
        gradient_bytes: Bytes of its trained parameters.
        bucket_cap_mb: As the constructor got it, MiB; None where it got none.
        has_cap_list: Whether the constructor got a size for each bucket, which overrides the cap.
        gradient_as_bucket_view: As the constructor got it.
        static_graph: As the constructor got it.
        find_unused_parameters: As the constructor got it.
        allreduces: Payload in bytes and time in ns of allreduces between the ranks of the model
            before the training, where the launch asks for them; empty otherwise.
    """

    gradient_bytes: int
    bucket_cap_mb: float | None = None
    has_cap_list: bool = False
    gradient_as_bucket_view: bool = False
    static_graph: bool = False
    find_unused_parameters: bool = False
    allreduces: list[tuple[int, int]] = field(default_factory=list)


def ddp_argument(name: str, text: str) -> float | bool | None:
    """The value that a variable gives to its argument; None for DDP's own buckets.

    Raises:
        ValueError: The variable cannot have this value.
    """
    if name != BUCKET_CAP:
        if text not in _SWITCHES:
            raise ValueError(f"{name}={text} is neither 0 nor 1")
        return _SWITCHES[text]
    if text == DEFAULT:
        return None
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size <= _LARGEST_CAP_MB:
        raise ValueError(f"{name}={text} is no size in MiB, nor {DEFAULT}")
    return int(size) if size == int(size) else size


def ddp_call(environment: Mapping[str, str]) -> str:
    """What to write in a script in place of these variables; empty where none is of DDP.

    ``DistributedDataParallel(..., bucket_cap_mb=25)``
    """
    own = [(name, environment[name]) for name in DDP_ARGUMENTS if name in environment]
    if not own:
        return ""
    written = [
        f"{DDP_ARGUMENTS[name]}={ddp_argument(name, text)}" for name, text in own if text != DEFAULT
    ]
    call = f"DistributedDataParallel({', '.join(['...', *written])})"
    omitted = [DDP_ARGUMENTS[name] for name, text in own if text == DEFAULT]
    return f"{call} without {', '.join(omitted)}" if omitted else call


class TurnLine(TypedDict):
    """A turn: steps of one segment that ran while the other launches were stopped.

    ``round`` counts the turns of all launches from 0; launches with the same round ran one after
    the other. ``first_step`` is the recorded number of its first measured step. ``other_cores`` is
    the number of cores that processes outside the launch kept busy, ``steal_share`` the share of
    processor time that the hypervisor took; both None where unknown.
    """

    segment: str
    round: int
    first_step: int
    num_steps: int
    monotonic_ns: int
    dur_ns: int
    other_cores: float | None
    steal_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoSettings:
    """Carried to every rank in the environment variable ``HVDPROF_AUTORECORD``.

    ``num_warmup_steps`` are marked as warm-up; after ``num_steps`` more the script is ended, None
    lets it run to its end. ``batch_size`` is the number of samples per rank and step, None where
    batches show it. ``timeline`` is the file into which Horovod writes its timeline of the
    first ``num_timeline_steps`` steps after warm-up, empty for none.
    """

    num_warmup_steps: int
    num_steps: int | None
    batch_size: int | None
    timeline: str
    num_timeline_steps: int

    def to_text(self) -> str:
        """The value of the environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "AutoSettings":
        """The settings of this process.

        Raises:
            KeyError, TypeError, ValueError: The variable is missing or damaged.
        """
        return cls(**json.loads(environment[AUTORECORD]))
