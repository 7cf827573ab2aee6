"""A large Horovod timeline in the grammar of Horovod's own writer (``timeline.cc``, 0.20.1 on).

    .venv/bin/python benchmarks/generate_timeline.py --bytes 500M -o timeline.json

Real are the bytes of a record, the order of records of a tensor, names and fused batches; durations
and the order of the tensors are invented, so nothing about training can be learned from the file.
The output depends on the arguments alone. ``--spacing`` writes the same records as other tools do.
A file of more than 200 MB repeats its steps after 100 MB, at later times.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}
_ACTIVITIES = ("MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER")
_WAITS = ("WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA", "QUEUE")
_EDGES = (64, 128, 256, 512, 1024, 2048)
_EPOCH_US = 1_795_209_342_196_101
_LARGEST_BATCH = 16
_LARGEST_WHOLE = 200_000_000
_BLOCK_BYTES = 100_000_000
_FIRST_US = 1000
# All times of a block have the same number of digits; only the first ones differ between blocks.
_FIRST_OF_BLOCK_US = 1_000_000_000_000


def records(
    num_tensors: int, num_ranks: int, numbers: random.Random, first_us: int = _FIRST_US
) -> Iterator[dict[str, Any]]:
    """Records without end, as their fields in the order in which Horovod writes them."""
    yield _metadata("process_name", 0, start_time_since_epoch_in_micros=_EPOCH_US)
    yield _metadata("process_sort_index", 0, sort_index=0)
    shapes = []
    for pid in range(1, num_tensors + 1):
        yield _metadata("process_name", pid, name=f"allreduce.layer{pid // 3}.{pid % 3}.weight")
        yield _metadata("process_sort_index", pid, sort_index=pid)
        shapes.append(f"[{numbers.choice(_EDGES)}, {numbers.choice(_EDGES)}]")
    now, step = first_us, 0
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
    by_spacing: dict[str, dict[str, Any]] = {
        "horovod": {},
        "compact": {"separators": (",", ":")},
        "indented": {"indent": 1},
    }
    options = by_spacing[spacing]
    with path.open("wb", buffering=1 << 22) as file:
        file.write(b"[\n")
        if num_bytes <= _LARGEST_WHOLE:
            num_records = _write_records(file, records(161, 4, numbers), num_bytes, options)
        else:
            num_records = _write_blocks(file, num_bytes, options, numbers)
        file.write(b"]")
    return num_records


def _write_records(
    file: BinaryIO, some: Iterator[dict[str, Any]], num_bytes: int, options: dict[str, Any]
) -> int:
    written, num_records = 2, 0
    for record in some:
        separator = "" if num_records == 0 else ",\n" if record["ph"] == "M" else ","
        written += file.write((separator + json.dumps(record, **options)).encode())
        num_records += 1
        if written >= num_bytes:
            break
    return num_records


def _write_blocks(
    file: BinaryIO, num_bytes: int, options: dict[str, Any], numbers: random.Random
) -> int:
    pieces: list[str] = []
    length, num_named = 0, 0
    for record in records(161, 4, numbers, _FIRST_OF_BLOCK_US):
        text = json.dumps(record, **options)
        if record["ph"] == "M":
            file.write((text + ",\n").encode())
            num_named += 1
            continue
        # A batch begins with the mark of a cycle.
        if record["ph"] == "i" and length >= _BLOCK_BYTES:
            break
        pieces.append(text)
        length += len(text) + 1
    block = ",".join(pieces).encode()
    separator = (options.get("separators") or (", ", ": "))[1]
    first = f'"ts"{separator}1000'
    num_blocks = max(round(num_bytes / len(block)), 1)
    for number in range(num_blocks):
        times = f'"ts"{separator}1{number:03d}'
        file.write((b"," if number else b"") + block.replace(first.encode(), times.encode()))
    return num_named + num_blocks * len(pieces)


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
