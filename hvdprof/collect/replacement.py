"""How a function of a library is replaced, for the life of the process.

Tested in ``tests/collect/auto/test_autorecord.py``.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def replace_call(
    hvd: ModuleType, name: str, replacement: Callable[[Callable[..., Any]], object]
) -> None:
    """Replace a function, also where it was defined.

    There pickle looks it up, a script may import it from, and Horovod's own backward passes too.
    """
    call = getattr(hvd, name)
    replaced = replacement(call)
    setattr(hvd, name, replaced)
    home = sys.modules.get(getattr(call, "__module__", None) or "")
    if home is not None and vars(home).get(name) is call:
        setattr(home, name, replaced)
