"""A large Horovod timeline in the grammar of Horovod's own writer (``timeline.cc``, 0.20.1 on).

    .venv/bin/python benchmarks/generate_timeline.py --bytes 500M -o timeline.json

Real are the bytes of a record, the order of records of a tensor, names and fused batches; durations
and the order of the tensors are invented, so nothing about training can be learned from the file.
The output depends on the arguments alone. ``--spacing`` writes the same records as other tools do.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}
_ACTIVITIES = ("MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER")
_WAITS = ("WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA", "QUEUE")
_EDGES = (64, 128, 256, 512, 1024, 2048)
_EPOCH_US = 1_795_209_342_196_101
_LARGEST_BATCH = 16


def records(num_tensors: int, num_ranks: int, numbers: random.Random) -> Iterator[dict[str, Any]]:
    """Records without end, as their fields in the order in which Horovod writes them."""
    yield _metadata("process_name", 0, start_time_since_epoch_in_micros=_EPOCH_US)
    yield _metadata("process_sort_index", 0, sort_index=0)
    shapes = []
    for pid in range(1, num_tensors + 1):
        yield _metadata("process_name", pid, name=f"allreduce.layer{pid // 3}.{pid % 3}.weight")
        yield _metadata("process_sort_index", pid, sort_index=pid)
        shapes.append(f"[{numbers.choice(_EDGES)}, {numbers.choice(_EDGES)}]")
    now, step = 1000, 0
    while True:
        left = list(range(num_tensors, 0, -1))
        while left:
            width = numbers.randint(1, _LARGEST_BATCH)
            batch, left = left[:width], left[width:]
            with_ticks = num_ranks if step == 0 or numbers.random() < 0.3 else 0
            for record in _use(batch, shapes, with_ticks, now, numbers):
                now = record["ts"]
                yield record
        now += numbers.randint(20_000, 60_000)
        step += 1


def _use(
    batch: list[int], shapes: list[str], num_ranks: int, now: int, numbers: random.Random
) -> Iterator[dict[str, Any]]:
    yield {"ph": "i", "name": "CYCLE_START", "ts": now, "s": "g"}
    for pid in batch:
        yield {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": now, "pid": pid}
    for rank in range(num_ranks):
        now += numbers.randint(0, 300)
        for pid in batch:
            yield {"ph": "X", "name": str(rank), "ts": now, "pid": pid, "dur": 0}
    for pid in batch:
        now += numbers.randint(0, 1)
        yield {"ph": "E", "ts": now, "pid": pid}
    for pid in batch:
        yield {"ph": "B", "name": "ALLREDUCE", "ts": now, "pid": pid}
    for activity in _WAITS + _ACTIVITIES:
        for pid in batch:
            yield {"ph": "B", "name": activity, "ts": now, "pid": pid}
        now += numbers.randint(5, 2000)
        for pid in batch:
            yield {"ph": "E", "ts": now, "pid": pid}
    for pid in batch:
        args = {"dtype": "float32", "shape": shapes[pid - 1]}
        yield {"ph": "E", "ts": now, "pid": pid, "args": args}


def _metadata(kind: str, pid: int, **args: Any) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "args": args}


def write(path: Path, num_bytes: int, spacing: str, numbers: random.Random) -> int:
    """Write a timeline of about so many bytes; the number of records it holds."""
    options: dict[str, Any] = {
        "horovod": {},
        "compact": {"separators": (",", ":")},
        "indented": {"indent": 1},
    }[spacing]
    written, num_records = 2, 0
    with path.open("w", encoding="ascii", buffering=1 << 22) as file:
        file.write("[\n")
        for record in records(161, 4, numbers):
            separator = "" if num_records == 0 else ",\n" if record["ph"] == "M" else ","
            written += file.write(separator + json.dumps(record, **options))
            num_records += 1
            if written >= num_bytes:
                break
        file.write("]")
    return num_records


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--bytes", default="50M", help="size; K, M and G are powers of 1000")
    parser.add_argument("--spacing", choices=("horovod", "compact", "indented"), default="horovod")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    unit = _UNITS.get(options.bytes[-1:], 1)
    num_bytes = int(float(options.bytes.rstrip("KMG")) * unit)
    num_records = write(options.output, num_bytes, options.spacing, random.Random(options.seed))
    print(f"{options.output}: {options.output.stat().st_size} bytes, {num_records} records")


if __name__ == "__main__":
    main()
