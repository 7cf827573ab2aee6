"""The records of a run that W&B kept without network."""

import struct
import time
from pathlib import Path

_HEAD = struct.Struct("<IHB")
_BLOCK = 1 << 15
_WHOLE, _LAST = 1, 4


def offline_records(folder: Path) -> list:
    """All of them, once the service of W&B has written the last one, the exit, on its own."""
    deadline = time.monotonic() + 20
    while not (records := _records(folder)) or records[-1].WhichOneof("record_type") != "exit":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return records


def _records(folder: Path) -> list:
    """The records of an offline run, which is a log of LevelDB behind 7 bytes of its own."""
    from wandb.proto import wandb_internal_pb2

    [file] = folder.glob("wandb/offline-run-*/*.wandb")
    data = file.read_bytes()
    assert data[:4] == b":W&B"
    records, begun, place = [], b"", 7
    while place + _HEAD.size <= len(data):
        if _BLOCK - place % _BLOCK < _HEAD.size:
            place += _BLOCK - place % _BLOCK
            continue
        _, length, kind = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        begun += data[place : place + length]
        place += length
        if kind in (_WHOLE, _LAST):
            records.append(wandb_internal_pb2.Record.FromString(begun))
            begun = b""
    return records
