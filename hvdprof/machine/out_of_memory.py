"""Whether the kernel of this host ends processes for lack of memory."""

import re
from pathlib import Path

_VMSTAT = Path("/proc/vmstat")
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def oom_kills(path: Path = _VMSTAT) -> int | None:
    """Processes that the kernel has ended for lack of memory since boot, in containers too.

    None where it does not count them: kernels before 4.13, and other systems than Linux.
    """
    try:
        found = _COUNT.search(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    return int(found[1]) if found else None
