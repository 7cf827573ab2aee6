"""Speed and memory of reading a profiler trace: ``python -m benchmarks.kineto_ingest --mb 500``.

The trace is synthetic in Kineto's own spacing: CUDA with Python stacks, one of 12 events a kernel,
two collectives per step. Every reading runs in a process of its own, whose largest memory counts;
the ways take turns, and medians of the turns are shown. Two parsers of JSON stand in for others,
where they are installed: ``orjson`` makes objects of the whole text, ``pysimdjson`` parses it only.

With ``--jobs 1x100,8x900`` it writes the traces of all ranks of two jobs (see ``kineto_job``), one
of 100 MB and eight of 900 MB each, and runs ``hvdprof analyze`` on each job: with ``--jobs 1`` and
with all cores in turn, each without kept tables, then ``hvdprof export`` with them.
"""

import argparse
import gzip
import importlib
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.kineto_job import write_job
from benchmarks.page_section import write_section
from hvdprof.ingest.storage.parquet_cache import FOLDER

WAYS = {
    "compiled": "hvdprof",
    "patterns": "hvdprof without numba, and before 2026-11-28",
    "orjson": "orjson, objects",
    "simdjson": "pysimdjson, parsed only",
}
_EVENT = """  {{
    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      {args}
    }}
  }},
"""
_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "A100"}],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "traceEvents": [
"""
_END = '{"name": "Record Window End", "ph": "i", "ts": 1}\n], "baseTimeNanoseconds": 1}\n'
_STEP_US = 100_000.0
_OPERATIONS = 2000


def main() -> None:
    """Print the table, and put it into a page with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--read", type=Path, help="read this trace, and print the numbers")
    parser.add_argument("--way", choices=[*WAYS], default="compiled", help="how to read it")
    parser.add_argument("--jobs", help="ranks x MB of each trace, such as 1x100,8x900")
    options = parser.parse_args()
    if options.read:
        read(options.read, options.way)
        return
    if options.jobs:
        jobs = [tuple(map(int, one.split("x"))) for one in options.jobs.split(",")]
        table = table_of_jobs(jobs, options.repeats)
        print(table)
        if options.write:
            write_section(options.write, "kineto jobs", table)
        return
    table = table_of_ways(options.mb * 1_000_000, options.repeats)
    print(table)
    if options.write:
        write_section(options.write, "kineto", table)


def table_of_ways(num_bytes: int, repeats: int) -> str:
    """The table of all ways that are installed, of a trace that is plain, gzip and zstd."""
    lines = [
        "| trace | way | CPU seconds | MB of text per CPU second | to the patterns | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.json"
        write(plain, num_bytes)
        text_mb = plain.stat().st_size / 1e6
        packed = _packed(plain)
        pairs = [(plain, way) for way in WAYS if _is_installed(way)]
        pairs += [(path, way) for path in packed for way in ("compiled", "patterns")]
        found: dict[tuple[Path, str], list[dict[str, float]]] = {pair: [] for pair in pairs}
        for _ in range(repeats):
            for path, way in pairs:
                found[path, way].append(_measured(path, way))
        for (path, way), turns in found.items():
            seconds = statistics.median(turn["seconds"] for turn in turns)
            before = statistics.median(turn["seconds"] for turn in found[path, "patterns"])
            peak_mb = max(turn["peak_mb"] for turn in turns)
            lines.append(
                f"| {path.stat().st_size / 1e6:,.0f} MB{path.suffix} | {WAYS[way]} | {seconds:.2f} "
                f"| {text_mb / seconds:.0f} | {before / seconds:.1f} x | {peak_mb:.0f} MB |"
            )
    return "\n".join(lines)


def _packed(plain: Path) -> list[Path]:
    packed = [plain.with_suffix(".json.gz"), plain.with_suffix(".json.zst")]
    with (
        plain.open("rb") as source,
        gzip.open(packed[0], "wb", compresslevel=1) as first,
        pa.CompressedOutputStream(str(packed[1]), "zstd") as second,
    ):
        while piece := source.read(1 << 20):
            first.write(piece)
            second.write(piece)
    return packed


def _is_installed(way: str) -> bool:
    return way not in ("orjson", "simdjson") or importlib.util.find_spec(way) is not None


def _measured(path: Path, way: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.kineto_ingest", "--read", str(path), "--way", way]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def read(path: Path, way: str = "compiled") -> None:
    """Read one trace, and print the CPU seconds and the largest memory as JSON."""
    from hvdprof.ingest.kineto import event_rows
    from hvdprof.ingest.kineto.trace_file import read_trace_file

    if way == "patterns":
        vars(event_rows)["has_numba"] = lambda: False
    parser = importlib.import_module(way) if way in ("orjson", "simdjson") else None
    began = time.process_time()
    if parser is None:
        read_trace_file(path)
    elif way == "orjson":
        parser.loads(path.read_bytes())
    else:
        parser.Parser().parse(path.read_bytes())
    seconds = time.process_time() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb}))


def table_of_jobs(jobs: Sequence[tuple[int, ...]], repeats: int) -> str:
    """The table of jobs, each of so many ranks with so many MB per trace; files are deleted."""
    lines = [
        "| traces | text in all | command | CPU seconds | seconds | MB of text per CPU second "
        "| peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for ranks, megabytes in jobs:
        with tempfile.TemporaryDirectory() as folder:
            paths = write_job(Path(folder) / "job", ranks, megabytes * 1_000_000)
            text_mb = sum(path.stat().st_size for path in paths) / 1e6
            cached = paths[0].parent / FOLDER
            export = ["export", *map(str, paths), "-o", f"{folder}/out.json", "--force"]
            ways = {
                "`analyze --jobs 1`": ["analyze", "--jobs", "1", *map(str, paths)],
                "`analyze`": ["analyze", *map(str, paths)],
                "`export` afterwards": export,
            }
            found: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
            for _ in range(repeats):
                for name, command in ways.items():
                    if command is not export:
                        shutil.rmtree(cached, ignore_errors=True)
                    found[name].append(run_command(command, Path(folder) / "cache"))
        for name, turns in found.items():
            cpu, wall, peak_mb = map(statistics.median, zip(*turns, strict=True))
            lines.append(
                f"| {ranks} of {text_mb / ranks:,.0f} MB | {text_mb:,.0f} MB | {name} | {cpu:.1f} "
                f"| {wall:.1f} | {text_mb / cpu:,.0f} | {peak_mb:.0f} MB |"
            )
    return "\n".join(lines)


def run_command(arguments: Sequence[str], cache: Path) -> tuple[float, float, float]:
    """CPU seconds, seconds and largest resident memory, in MB, of a command of hvdprof.

    Raises:
        RuntimeError: The command failed.
    """
    command = [sys.executable, "-m", "hvdprof", *arguments]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    began = time.perf_counter()
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process,
    ):
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(output.read().decode("utf-8", "replace"))
    wall = time.perf_counter() - began
    return used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1000


def write(path: Path, num_bytes: int) -> None:
    """Write a trace of at least so many bytes."""
    with path.open("w", encoding="ascii") as target:
        target.write(_HEAD)
        step = 0
        while target.tell() < num_bytes:
            target.writelines(_step(step))
            step += 1
        target.write(_END)


def _step(number: int) -> Iterator[str]:
    begin = 1_000_000.0 + number * _STEP_US
    yield _event("user_annotation", f"ProfilerStep#{number}", begin, _STEP_US)
    for place in range(_OPERATIONS):
        at, key = begin + place * _STEP_US / _OPERATIONS, number * _OPERATIONS + place
        for depth in range(4):
            yield _event("python_function", f"torch/nn/modules/module.py(17{depth}): _call", at, 40)
        backward = "autograd::engine::evaluate_function: MmBackward0"
        name = backward if place % 8 == 5 else "aten::addmm"
        for _ in range(4):
            shapes = '"Input Dims": [[32, 1024], [1024, 1024]], "Input type": ["float", "float"]'
            yield _event("cpu_op", name, at, 30, f'{shapes}, "Ev Idx": {key}')
        yield _event("cuda_runtime", "cudaLaunchKernel", at, 5, f'"correlation": {key}')
        yield _event("kernel", "ampere_sgemm_128x64_tn", at, 35, f'"correlation": {key}', 7)
        yield _event("ac2g", "ac2g", at, 1)
    for place in range(2):
        ended = begin + _STEP_US - 900 + 400 * place
        said = (
            f'"External id": {2 * number + place}, "Collective name": "allreduce", "dtype": "Float"'
            ', "In msg nelems": 1000000, "Out msg nelems": 1000000, "Group size": 8'
        )
        yield _event("cpu_op", "record_param_comms", ended, 20, said)
        linked = f'"External id": {2 * number + place}'
        yield _event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", ended, 300, linked, 40)


def _event(
    cat: str, name: str, ts: float, dur: float, args: str = '"Ev Idx": 0', tid: int = 542
) -> str:
    return _EVENT.format(cat=cat, name=name, pid=542, tid=tid, ts=ts, dur=dur, args=args)


if __name__ == "__main__":
    main()
