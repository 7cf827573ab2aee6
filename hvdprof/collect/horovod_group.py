"""What the recorder asks of Horovod: to pass small values around, and its timeline."""

import json
import sys
import time
from typing import Any

from hvdprof.collect.clock_exchange import RankGroup
from hvdprof.collect.identity import Identity, loaded_horovod

GATHER_TIMEOUT_S = 60.0

_MESSAGE_BYTES = 4096
_POLL_S = 0.001


def rank_group(identity: Identity) -> RankGroup:
    """The ranks of the job, connected by Horovod; a group of one rank needs no Horovod.

    Raises:
        OSError: There are more ranks, but Horovod is not initialised in this process.
    """
    if identity.size == 1:
        return RankGroup(0, 1, lambda value: [value])
    hvd = loaded_horovod()
    if hvd is None:
        raise OSError("Horovod is not initialised: call start() after hvd.init()")
    return RankGroup(identity.rank, identity.size, lambda value: _all_gather(hvd, value))


def start_timeline(path: str) -> None:
    """Let Horovod write its timeline from here on; every rank calls it, rank 0 writes.

    Raises:
        OSError: Horovod is not initialised in this process.
        ValueError: ``HOROVOD_TIMELINE`` was not set when Horovod was initialised.
    """
    _required().start_timeline(path)


def stop_timeline() -> None:
    """End the timeline; returns when the file is complete.

    Raises:
        OSError: Horovod is not initialised in this process.
        ValueError: ``HOROVOD_TIMELINE`` was not set when Horovod was initialised.
    """
    _required().stop_timeline()


def _all_gather(hvd: Any, value: Any) -> list[Any]:
    # Not allgather_object: that waits for ever when one rank has no recorder, for instance
    # because its environment was not passed on to its host.
    torch = sys.modules["torch"]
    text = json.dumps(value).encode("utf-8")
    if len(text) > _MESSAGE_BYTES:
        raise OSError(f"a message of {len(text)} bytes is too long for the exchange")
    message = torch.tensor(list(text.ljust(_MESSAGE_BYTES)), dtype=torch.uint8)
    handle = hvd.allgather_async(message.unsqueeze(0), name="hvdprof.exchange")
    deadline_s = time.monotonic() + GATHER_TIMEOUT_S
    while not hvd.poll(handle):
        if time.monotonic() > deadline_s:
            raise OSError(
                f"not all ranks took part within {GATHER_TIMEOUT_S:.0f} s; "
                "is HVDPROF_RECORDER_DIR set on every host?"
            )
        time.sleep(_POLL_S)
    return [json.loads(bytes(row.tolist())) for row in hvd.synchronize(handle)]


def _required() -> Any:
    hvd = loaded_horovod()
    if hvd is None:
        raise OSError("Horovod is not initialised in this process")
    return hvd
