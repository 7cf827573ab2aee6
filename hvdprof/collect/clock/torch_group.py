"""What the recorder asks of ``torch.distributed``: to pass small values around."""

import datetime as dt
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

GATHER_TIMEOUT_S = 60.0

_PREFIX = "hvdprof"
_TURNS = itertools.count()


def loaded_torch_distributed() -> Any | None:
    """The module ``torch.distributed`` where the script has made its process group, else None."""
    module = sys.modules.get("torch.distributed")
    is_ready = module is not None and module.is_available() and module.is_initialized()
    return module if is_ready else None


def gather_over_store(
    distributed: Any, turns: Iterator[int] = _TURNS
) -> Callable[[Any], list[Any]]:
    """An ``all_gather`` for ``RankGroup`` through the key-value store that the ranks met at.

    Not ``all_gather_object``: that waits for half an hour where one rank has no recorder.

    Args:
        distributed: The module ``torch.distributed``.
        turns: Numbers the calls of this process; every rank makes the same calls.
    """
    store = distributed.PrefixStore(_PREFIX, distributed.distributed_c10d._get_default_store())
    rank, size = distributed.get_rank(), distributed.get_world_size()

    def all_gather(value: Any) -> list[Any]:
        turn = next(turns)
        return _all_gather(store, [f"{turn}/{one}" for one in range(size)], rank, value)

    return all_gather


def _all_gather(store: Any, names: list[str], rank: int, value: Any) -> list[Any]:
    try:
        store.set(names[rank], json.dumps(value))
        store.wait(names, dt.timedelta(seconds=GATHER_TIMEOUT_S))
        return [json.loads(store.get(name)) for name in names]
    except RuntimeError as error:
        raise OSError(
            f"not all ranks took part within {GATHER_TIMEOUT_S:.0f} s; "
            "is HVDPROF_RECORDER_DIR set on every host?"
        ) from error
