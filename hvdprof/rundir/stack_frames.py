"""Lines of a Python stack as ``stalls.jsonl`` has them, ``/home/me/train.py:12 main``."""

import re
from collections.abc import Sequence
from pathlib import PurePath

_CHECKPOINT = re.compile(
    r"torch/serialization\.py|distributed/checkpoint/|safetensors/|"
    r"[ .]save(?:_model|_pretrained|_state\w*|_weights)?$|checkpoint\w*$",
    re.IGNORECASE,
)
"""In the lines of a rank that writes a checkpoint: PyTorch's, and functions named so."""

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/hvdprof/collect/", "<")
"""In or before the paths of files that are not the script's own."""


def script_frame(stack: Sequence[str]) -> str:
    """The innermost line of the script itself; empty if there is none.

    Args:
        stack: The lines, innermost first.
    """
    for frame in stack:
        path, _, _ = frame.rpartition(" ")
        if not any(library in path for library in _LIBRARIES):
            return frame
    return ""


def frame_parts(frame: str) -> tuple[str, str, str]:
    """Name of the file, line, and function, which is empty at the level of a module."""
    place, _, function = frame.rpartition(" ")
    path, _, line = place.rpartition(":")
    return PurePath(path).name, line, "" if function == "<module>" else function


def writes_checkpoint(stack: Sequence[str]) -> bool:
    """Whether a stack is that of a rank that writes a checkpoint, or reads one.

    Args:
        stack: The lines.
    """
    return any(_CHECKPOINT.search(frame) for frame in stack)


def frames_from_checkpoint(stack: Sequence[str]) -> Sequence[str]:
    """The stack from its checkpoint on outwards, where it has one: what that calls is no cause.

    Args:
        stack: The lines, innermost first.
    """
    places = (place for place, frame in enumerate(stack) if _CHECKPOINT.search(frame))
    return stack[next(places, 0) :]
