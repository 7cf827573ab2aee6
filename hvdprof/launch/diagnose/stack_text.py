"""The stack of the training thread out of what ``faulthandler`` writes of all threads.

Tested in ``tests/launch/diagnose/test_stall_watch.py``.
"""

import re
from pathlib import Path

MAX_LINES = 12

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x")
_FRAME = re.compile(r'^\s+File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')


def training_stack(path: Path) -> list[str]:
    """The frames of the main thread, innermost first, at most ``MAX_LINES``; empty without a file.

    ``faulthandler`` writes the newest thread first, so that the main one is the last.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    frames: list[str] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            frames = []
        found = _FRAME.match(line)
        if found is not None:
            frames.append(f"{found['file']}:{found['line']} {found['function']}")
    return frames[:MAX_LINES]
