"""What `hvdprof run` asks of the recorder in a script that does not call it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

AUTORECORD = "HVDPROF_AUTORECORD"


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
