"""How fast ``hvdprof analyze`` reads verbose logs of NCCL's Inspector, and with how much memory.

``python -m benchmarks.inspector_ingest [--ranks 8] [--calls 12000] [--against CHECKOUT]`` writes a
log for each rank, and measures the whole of ``analyze`` in processes of their own: this version and
that of the other checkout in turn. Medians of three rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_ROUNDS = 3
_START_US = 1_752_867_229_000_000
_SIZES = (1 << 16, 1 << 20, 1 << 22, 1 << 25)


def main() -> None:
    """Write the logs, analyze them, print CPU seconds, seconds and peak memory."""
    parser = argparse.ArgumentParser(description="Measure reading of logs of NCCL's Inspector.")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--calls", type=int, default=12_000, help="of each rank")
    parser.add_argument("--against", type=Path, help="checkout of another version")
    options = parser.parse_args()
    ways = {"this version": Path(__file__).parent.parent}
    if options.against is not None:
        ways["other version"] = options.against
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        for rank in range(options.ranks):
            path = logs / f"node{rank // 8}-pid{7000 + rank}.log"
            path.write_text(_log(rank, options.ranks, options.calls))
        size = sum(path.stat().st_size for path in logs.iterdir()) / 1e6
        print(f"{options.ranks * options.calls:,} calls, {size:.0f} MB")
        rounds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
        for _ in range(_ROUNDS):
            for name, checkout in ways.items():
                rounds[name].append(analyzed(checkout, [logs]))
    for name, measured in rounds.items():
        print(f"{name:15} {shown(measured)}")


def analyzed(checkout: Path, paths: list[Path]) -> tuple[float, float, float]:
    """CPU seconds, seconds and peak memory in MB of ``analyze`` of a checkout.

    Raises:
        RuntimeError: It failed.
    """
    started = os.times().elapsed
    with subprocess.Popen(
        [sys.executable, "-m", "hvdprof", "analyze", *map(str, paths)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=checkout,
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"analyze ended with {process.returncode}")
    seconds = os.times().elapsed - started
    return used.ru_utime + used.ru_stime, seconds, used.ru_maxrss / 1e3


def shown(measured: list[tuple[float, float, float]]) -> str:
    """The medians of some measurements of ``analyzed``, with the load of the machine."""
    cpu, seconds, peak = (statistics.median(values) for values in zip(*measured, strict=True))
    load = os.getloadavg()[0]
    return f"{cpu:.1f} CPU seconds, {seconds:.1f} s, peak {peak:.0f} MB, load {load:.1f}"


def _log(rank: int, num_ranks: int, num_calls: int) -> str:
    """What format 4.0 writes with NCCL_INSPECTOR_DUMP_VERBOSE=1, on two channels."""
    head = {"id": "0x9e7a479f95a66c", "rank": rank, "n_ranks": num_ranks, "nnodes": 1}
    lines = []
    for call in range(num_calls):
        size = _SIZES[call % len(_SIZES)]
        start = _START_US + call * 900 + (call * 7 + rank * 13) % 40
        stop = _START_US + call * 900 + 60 + size // 65_536
        micros = stop - start
        algbw = size / micros / 1e3
        record = {
            "header": head,
            "metadata": {
                "inspector_output_format_version": "v4.0", "git_rev": "a1b2c3d4",
                "rec_mechanism": "nccl_profiler_interface", "dump_timestamp_us": stop + 500,
                "hostname": "node0", "pid": 7000 + rank,
            },
            "coll_perf": {
                "coll": "AllReduce", "coll_sn": call + 1, "coll_msg_size_bytes": size,
                "coll_exec_time_us": micros, "coll_timing_source": "kernel_gpu",
                "coll_algobw_gbs": round(algbw, 6), "coll_busbw_gbs": round(algbw * 1.75, 6),
                "event_trace_ts": {
                    "coll_start_ts": start - 4, "coll_stop_ts": stop + 3,
                    "kernel_events": [
                        {"channel_id": channel, "kernel_start_ts": start + channel,
                         "kernel_stop_ts": stop - channel, "kernel_record_ts": stop + 2}
                        for channel in range(2)
                    ],
                },
            },
        }  # fmt: skip
        lines.append(json.dumps(record))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
