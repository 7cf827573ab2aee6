"""Lines of a Python stack as ``stalls.jsonl`` has them, ``/home/me/train.py:12 main``."""

from collections.abc import Sequence

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
