"""What the lines before rates say of a job: model, batch sizes, number of ranks.

Tested in ``tests/ingest/logs/test_printed_rates.py``.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePath

_MODEL, _DEVICES = "model", "devices"
_LINES: tuple[tuple[str, str], ...] = (
    (_MODEL, r"^\W{0,3}Model: +(\S+?)`?\s*$"),
    ("batch", r"^Batch size: +(\d+)\s*$"),
    ("batch", r"^\s+(\d+) per device"),
    (_DEVICES, r"^Devices: +\[(.*)\]"),
    ("np", r"^Number of \w+: (\d+)\s*$"),
    ("np", r"using world size: (\d+)\b"),
    ("np", r"distributed processes registered\. Starting with (\d+) processes"),
    ("np", r"training on (\d+) devices \(GPUs/TPUs\)"),
    ("np", r"Num_devices: (\d+), shape"),
    ("tokens", r"tokens per iteration will be: ([\d,]+)\s*$"),
    ("batch_of_rank", r"Instantaneous batch size per device = (\d+)\s*$"),
    ("batch_of_job", r"Total train batch size \(.*accumulation\) = (\d+)\s*$"),
    ("accumulation", r"Gradient Accumulation steps = (\d+)\s*$"),
)
SETTING_LINES = tuple(pattern for _, pattern in _LINES)
"""Patterns of the lines that ``Settings.take`` reads."""

_PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in _LINES)
_NP_OF_NAME = re.compile(
    r"(?<![a-z0-9])(?:(?:np|nproc|world_?size|gpus|ranks)[-_=]?(\d{1,6})|"
    r"(\d{1,6})[-_]?(?:gpus?|ranks|procs?|workers))(?![a-z0-9])",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Settings:
    """What was said so far; the last counts."""

    said: dict[str, str] = field(default_factory=dict)

    def take(self, text: str) -> None:
        """Keep what a line says."""
        for name, pattern in _PATTERNS:
            if found := pattern.search(text):
                self.said[name] = found[1]

    @property
    def model(self) -> str:
        """Name of the model; empty where none is given."""
        return self.said.get(_MODEL, "")

    @property
    def np(self) -> int | None:
        """Number of ranks: by the list of devices, as stated, or by the batch sizes."""
        if listed := self.said.get(_DEVICES, "").count("horovod/"):
            return listed
        if "np" in self.said:
            return self.number("np")
        batch, of_job = self.number("batch_of_rank"), self.number("batch_of_job")
        size = (batch or 0) * (self.number("accumulation") or 0)
        return of_job // size if of_job and size and of_job % size == 0 else None

    def number(self, name: str) -> int | None:
        """A whole number above 0 that was said."""
        return int(self.said.get(name, "").replace(",", "")[:9] or 0) or None


def names_model(text: str) -> bool:
    """Whether a line begins the header of a benchmark."""
    return _PATTERNS[0][1].match(text) is not None


def np_of_name(file: str) -> int | None:
    """The number of ranks in the name of a file, ``run_np4.log`` or ``8gpus.txt``."""
    found = {int(one or two) for one, two in _NP_OF_NAME.findall(PurePath(file).name)}
    return found.pop() or None if len(found) == 1 else None
