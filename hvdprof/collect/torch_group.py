"""What the recorder asks of ``torch.distributed``: to pass small values around."""

import datetime as dt
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

GATHER_TIMEOUT_S = 60.0

_PREFIX = "hvdprof"
_turns = itertools.count()


def loaded_torch_distributed() -> Any | None:
    """The module ``torch.distributed`` where the script has made its process group, else None."""
    module = sys.modules.get("torch.distributed")
    is_ready = module is not None and module.is_available() and module.is_initialized()
    return module if is_ready else None


def gather_over_store(distributed: Any) -> Callable[[Any], list[Any]]:
    """An ``all_gather`` for ``RankGroup`` through the key-value store that the ranks met at.

    Not ``all_gather_object``: that waits for half an hour where one rank has no recorder.
    """
    store = distributed.PrefixStore(_PREFIX, distributed.distributed_c10d._get_default_store())
    rank, size = distributed.get_rank(), distributed.get_world_size()
    return lambda value: _all_gather(store, rank, size, value)


def _all_gather(store: Any, rank: int, size: int, value: Any) -> list[Any]:
    # Every rank makes the same calls, so the number of a call is the same on all.
    turn = next(_turns)
    names = [f"{turn}/{one}" for one in range(size)]
    try:
        store.set(names[rank], json.dumps(value))
        store.wait(names, dt.timedelta(seconds=GATHER_TIMEOUT_S))
        return [json.loads(store.get(name)) for name in names]
    except RuntimeError as error:
        raise OSError(
            f"not all ranks took part within {GATHER_TIMEOUT_S:.0f} s; "
            "is HVDPROF_RECORDER_DIR set on every host?"
        ) from error
