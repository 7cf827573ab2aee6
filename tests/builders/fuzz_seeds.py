"""Whole inputs of every kind that hvdprof reads, to be damaged: files, and folders of files."""

import dataclasses
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from hvdprof.report.sections.forecast_page import write_forecast
from hvdprof.rundir.json_codec import to_text
from hvdprof.rundir.launch_format import DdpFacts
from hvdprof.rundir.layout import RunPaths
from tests.builders.elastic_run import SessionSpec, WorkerSpec, write_elastic_run
from tests.builders.finished_forecast import finished_forecast
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.light_recording import made_light
from tests.builders.nccl_log import call_line, collective_call, job
from tests.builders.nsys_exports import (
    COLLECTED,
    REDUCED,
    Range,
    add_schemas,
    payload,
    write_export,
)
from tests.builders.phase_logs import write_phase_logs
from tests.builders.places import RECORDINGS
from tests.builders.profiler_traces import TracedJob, write_traces
from tests.builders.rank_stacks import faulthandler, py_spy, server_dump
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.sharded_traces import ShardedJob
from tests.builders.two_host_run import two_host_run
from tests.ingest.logs import test_fr_trace_text as fr_trace
from tests.ingest.logs import test_megatron_log as megatron
from tests.ingest.logs import test_nccl_inspector as inspector
from tests.ingest.logs import test_nccl_tests_output as nccl_tests
from tests.ingest.logs import test_process_stacks as stacks
from tests.ingest.logs import test_ras_text as ras
from tests.ingest.logs.deepspeed import test_deepspeed_comms as deepspeed
from tests.ingest.logs.test_allreduce_bench_output import TABLE as BENCH_TABLE
from tests.ingest.logs.test_autotune_log import HEADER
from tests.ingest.logs.test_collective_timeouts import CAUGHT
from tests.ingest.logs.test_printed_rates import SYNTHETIC, TF_CNN
from tests.ingest.logs.test_stall_warnings import FORMS
from tests.ingest.nsys.test_export_tables import ALLREDUCE, KERNELS
from tests.ingest.rundir.test_run_files import LINE as TURN
from tests.ingest.rundir.test_stall_file import STALL
from tests.ingest.test_load_files import MIXED, TIMELINE

Seeds = Callable[[Path], list[Path]]
"""Writes the inputs of a kind into a folder, and returns each of them."""

_LONGEST = 6000


def timelines(folder: Path) -> list[Path]:
    """Recordings of Horovod's timeline: a beginning and an end of each."""
    pieces = [TIMELINE.encode()]
    for path in sorted(RECORDINGS.glob("*.json")):
        if ".truth." not in path.name:
            content = path.read_bytes()
            pieces += [content[:_LONGEST], content[-_LONGEST // 3 :]]
    return _files(folder, pieces)


def nccl_logs(folder: Path) -> list[Path]:
    """Logs of NCCL with communicators, calls, settings and troubles."""
    calls = [call_line(rank, 1024, n=n) for n in range(3) for rank in range(4)]
    calls += [collective_call(rank, 1 << 20) for rank in range(4)]
    whole = "\n".join(job())
    tagged = "\n".join(f"[1,{n % 4}]<stdout>:{line}" for n, line in enumerate(whole.splitlines()))
    trouble = "\n".join(
        f"oak{n}:7100:7200 [{n}] {text}"
        for n, text in enumerate(
            (
                "transport/net_ib.cc:2007 NCCL WARN NET/IB: Got completion from peer 10.0.0.1 with "
                "status=12 opcode=0 len=0 vendor err 129 (Recv)",
                "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>",
                "NCCL INFO NCCL_IB_HCA set by environment to mlx5_0",
                "misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.2<1> failed",
            )
        )
    )
    return _files(folder, [whole, "\n".join([whole, *calls]), tagged, f"{whole}\n{trouble}\n"])


def nccl_tests_outputs(folder: Path) -> list[Path]:
    """Output of nccl-tests, old and new, of one and of several operations."""
    new = nccl_tests.NEW + "".join(
        nccl_tests.ROW.format(size=size, count=size // 4, time=10.0, alg=1.5, bus=2.8, wrong=0)
        for size in (1 << 10, 1 << 20, 1 << 28)
    )
    headed = (
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
        "#  Rank  0 Group  0 Pid  1 on a device  0 [0x07] NVIDIA X\n"
        f"#  Rank  1 Group  0 Pid  2 on b device  0 [0x07] NVIDIA X\n{new}"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 2.8\n"
    )
    bare = (
        nccl_tests.BARE + "    1048576    17.5   60.0   105.0\n    2097152    30.1   70.0   122.0\n"
    )
    return _files(folder, [headed, headed + headed, bare, BENCH_TABLE])


def runs(folder: Path) -> list[Path]:
    """Run directories with every side file that one can have."""
    full = two_host_run(folder / "full")
    light = made_light(write_run(folder / "light", _ddp_passes()))
    for run in (full, light):
        _add_side_files(run)
    workers = [WorkerSpec("h1", 0, 11, 0), WorkerSpec("h2", 0, 12, 1)]
    elastic = write_elastic_run(
        folder / "elastic",
        [
            SessionSpec(workers=workers[:1], num_steps=20, why="hosts-updated"),
            SessionSpec(workers=workers, num_steps=30),
        ],
    )
    return [full, light, elastic]


def recorder_files(folder: Path) -> list[Path]:
    """The recorder files of a launch, without their run."""
    run = write_run(folder / "run", [PassSpec(size=2, segments=[SegmentSpec(num_steps=12)])])
    return [next(run.glob("passes/*/recorder"))]


def flight_dumps(folder: Path) -> list[Path]:
    """Flight Recorder dumps of two ranks, as pickles and as JSON."""
    both = {0: dump(enqueued=8, completed=7), 1: dump(enqueued=7, completed=7, late_ns=10**7)}
    gloo = {rank: dump(library="gloo", ranks=()) for rank in (0, 1)}
    return [
        write_dumps(folder / "pickles", both),
        write_dumps(folder / "json", both, as_json=True),
        write_dumps(folder / "gloo", gloo, as_json=True),
    ]


def inspector_logs(folder: Path) -> list[Path]:
    """Lines of the NCCL Inspector, of two versions."""
    lines = [
        {**inspector.header(rank), "coll_perf": inspector.perf(seq, micros=100 + rank)}
        for seq in range(1, 6)
        for rank in (0, 1)
    ]
    timed = [
        {
            **inspector.header(rank),
            "coll_perf": inspector.perf(seq, **inspector.kernel_times(10 * seq, 10 * seq + 5)),
        }
        for seq in range(1, 6)
        for rank in (0, 1)
    ]
    return _files(folder, [inspector.text(*lines), inspector.text(*timed)])


def ras_reports(folder: Path) -> list[Path]:
    """Reports of NCCL's RAS, as text and as JSON."""
    report = ras.report({0: 7, 1: 7, 2: 5}, silent=(3,))
    texts = [ras.MISMATCH, ras.MISMATCH + ras.INCOMPLETE, "OK\n" + json.dumps(report, indent=2)]
    return _files(folder, texts)


def kineto_traces(folder: Path) -> list[Path]:
    """Traces of torch.profiler of DDP on CPUs and GPUs, and of FSDP2."""
    write_traces(folder / "cpu", TracedJob(num_steps=5))
    write_traces(folder / "gpu", TracedJob(num_steps=5, backend="nccl"))
    ShardedJob(num_steps=4).write(folder / "sharded")
    return [folder / "cpu", folder / "gpu", folder / "sharded"]


def nsys_exports(folder: Path) -> list[Path]:
    """Exports of Nsight Systems with kernels, NCCL's ranges, payloads and launches."""
    ranges: list[str | Range] = [
        "step",
        Range(1, 2, "NCCL", kind=75, domain=1),
        *(
            Range(10 * n, 10 * n + 5, "ncclAllReduce", domain=1, data=payload(REDUCED, 7, 4096, 0))
            for n in range(1, 6)
        ),
        Range(70, 80, "ncclAllGather", domain=1, data=payload(COLLECTED, 7, 4096)),
    ]
    plain = write_export(folder / "a.sqlite", KERNELS, ["ncclAllReduce"] * 3 + ["step"])
    full = write_export(folder / "b.sqlite", KERNELS * 3, ranges, launches=range(1, 19))
    add_schemas(full)
    steps = [Range(n * 10**7, (n + 1) * 10**7, f"step {n}") for n in range(4)]
    stepped = write_export(
        folder / "c.sqlite", [(n, n + 5, 0, ALLREDUCE) for n in range(40)], steps
    )
    for path in (plain, full, stepped):
        # Smaller pages: more of the bytes mean something.
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA page_size = 1024")
            database.execute("VACUUM")
    return [plain, full, stepped]


def job_outputs(folder: Path) -> list[Path]:
    """What jobs print: stalls, time-outs, rates, iterations, timers, exit codes."""
    printed = "\n".join([*FORMS.values(), TF_CNN, SYNTHETIC, MIXED, CAUGHT])
    nemo = [path.read_bytes()[:_LONGEST] for path in sorted((RECORDINGS / "nemo").glob("*.txt"))]
    iterations = megatron.WORLD + megatron.TIMERS + megatron.OF_RANKS + megatron.STRAGGLERS
    stack = "Process name: 1\nExit code: 137\nTraceback (most recent call last):\nValueError: 5\n"
    autotune = HEADER + "".join(f"0,0,{n}, 0,5,4,8.{n}\n" for n in range(6))
    return _files(
        folder,
        [
            printed,
            printed + stack,
            *nemo,
            iterations,
            autotune,
            deepspeed.SUMMARY,
            deepspeed.VERBOSE,
        ],
    )


def tables(folder: Path) -> list[Path]:
    """Tables of throughput that people write by hand."""
    texts = [
        "np,samples/s\n1,100\n2,190.5\n4,350\n8,600\n",
        "| workers | samples_per_s |\n|---|--:|\n| 1 | 100 |\n| **2** | 190.5 |\n| 4 | 350 |\n",
        "# A\nmodel,np,samples/s,speedup\nr50,1,100,1\nr50,2,190,1.9x\nr50,4,350,3.5x\n",
        "1 100\n2 190.5\n4 360\n",
        "GPUs;images/sec\n1;100\n2;190,5\n",
    ]
    return _files(folder, texts)


def _files(folder: Path, contents: list[str] | list[bytes] | list[str | bytes]) -> list[Path]:
    paths = []
    for number, content in enumerate(contents):
        paths.append(folder / f"{number}.txt")
        paths[-1].write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


def _ddp_passes() -> list[PassSpec]:
    segment = SegmentSpec(engine="ddp", num_steps=40, parts_ms=typical_parts(12.0, 2.0))
    return [
        PassSpec(size=size, repeat=repeat, segments=[segment], offset_ms=np.zeros(size))
        for repeat in (1, 2)
        for size in (1, 2)
    ]


def _add_side_files(run: Path) -> None:
    stall = json.dumps(STALL) + "\n" + json.dumps({"kind": "over", "number": 0, "lasted_s": 75.0})
    waits = [{"rank": 0, "step": 5, "collective": "allreduce", "place": "a.py:3", "tensors": []}]
    unequal = {"ended": [1], "num_steps": 39, "waiting": [0], "step": 40}
    more = [STALL | {"number": 1, "late": [], "waits": waits}, STALL | {"unequal": unequal}]
    stalls = "\n".join([stall, *map(json.dumps, more)]) + "\n"
    for folder in sorted((run / "passes").iterdir()):
        paths = RunPaths(run).of_pass(folder.name)
        turns = [dict(TURN, round=n, first_step=2 + 10 * n) for n in range(4)]
        paths.turns.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
        paths.stalls.write_text(stalls)
        paths.stderr.write_text("\n".join(FORMS.values()) + "\n" + CAUGHT)
        paths.ddp_facts.write_text(to_text(DdpFacts(gradient_bytes=8, allreduces=[(4, 100)])))
        if "trace" in folder.name:
            paths.nccl_folder.mkdir()
            (paths.nccl_folder / "nccl.oak0").write_text("\n".join(job()))
            content = dump(library="gloo") | {"hvdprof_clock": {"wall_ns": 77, "monotonic_ns": 7}}
            paths.flight_folder.mkdir()
            for rank in (0, 1):
                (paths.flight_folder / f"rank-{rank}.json").write_text(json.dumps(content))
    forecast = dataclasses.replace(finished_forecast(("1Gbit", "25Gbit"), losses=(0.1, 0.05)))
    RunPaths(run).forecasts.mkdir()
    with (RunPaths(run).forecasts / "20261122-180000.json").open("w") as file:
        write_forecast(forecast, file, created_at="2026-11-22T18:00:00+00:00", version="0.0.0")


def stack_dumps(folder: Path) -> list[Path]:
    """Stacks of ranks by every tool, and the text of ``fr_trace``."""
    gdb = (
        "Thread 1 (LWP 7):\n#0  0x1 in ncclAllReduce () from /l/libnccl.so.2\n#1  0x2 in main ()\n"
    )
    record = fr_trace.RECORD.format(seq=71, name="all_reduce", missing="{2}")
    texts = {
        "server.txt": server_dump({0: "reduce", 1: "data", 2: "500"}),
        "rank0.txt": faulthandler("reduce"),
        "spy.txt": py_spy("data", 31) + py_spy("reduce", 32) + gdb,
        "spy.json": stacks.json_dump("data"),
        "counters.txt": stacks.COUNTERS,
        "fr_trace.txt": record + fr_trace.TABLE,
    }
    return [_written(folder / name, text) for name, text in texts.items()]


def phase_logs(folder: Path) -> list[Path]:
    """The logs of two ranks of torchtitan, together and alone."""
    paths = write_phase_logs(folder, [[10.0] * 6, [30.0] * 6])
    return [paths[0].parent, *paths]


def nccl_tests_json(folder: Path) -> list[Path]:
    """The file of a run of nccl-tests with ``-J``."""
    rows = [nccl_tests.json_row(8 << place, 20.0, 0.5) for place in range(5)]
    return [_written(folder / "tests.json", nccl_tests.json_of(rows))]


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


KINDS: dict[str, Seeds] = {
    "timeline": timelines,
    "NCCL log": nccl_logs,
    "nccl-tests": nccl_tests_outputs,
    "run directory": runs,
    "recorder files": recorder_files,
    "Flight Recorder": flight_dumps,
    "NCCL Inspector": inspector_logs,
    "NCCL RAS": ras_reports,
    "stacks": stack_dumps,
    "phase logs": phase_logs,
    "nccl-tests -J": nccl_tests_json,
    "Kineto": kineto_traces,
    "nsys": nsys_exports,
    "job output": job_outputs,
    "table": tables,
}
"""Every kind by its name in results."""
