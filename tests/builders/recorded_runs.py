"""Real runs, recorded once: packed folders that tests analyse as often as they like.

    python -m tests.builders.recorded_runs [NAME...]     record them anew, on an idle machine

What a recording holds is what hvdprof wrote, but for the names of the machine. How it was made
stands in ``RECORDED``; the tests of real ranks prove that a recording is made so.
"""

import io
import lzma
import os
import re
import shlex
import socket
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders.places import ROOT

PACKED = ROOT / "tests" / "recorded_runs"
_NOT_PACKED = frozenset({".parquet", ".lock"})


@dataclass(frozen=True, slots=True)
class Recording:
    """How a run was made: the command, the exit code, and variables of its environment."""

    command: str
    exit_code: int = 0
    environment: dict[str, str] = field(default_factory=dict)


_BENCH = "bench --models mnist"
_GLOO = "run --np 2 --controller gloo"
_USER_SCRIPT = "python tests/builders/user_script.py"
_TORCHRUN = "--launcher torchrun --np 2"
_DDP_SCRIPT = "python tests/builders/ddp_script.py"
_FSDP = (
    f"run --no-trace --num-steps 25 --num-warmup-batches 3 {_TORCHRUN}"
    " -- python tests/builders/fsdp_script.py --late-rank 1 --late-ms 120"
)

RECORDED = {
    "bench-sweep": Recording(f"{_BENCH} --np 1,2 --num-steps 20 --repeats 2 --fp16-allreduce"),
    "bench-adasum": Recording(
        f"{_BENCH} --np 2 --num-steps 15 --use-adasum --controller mpi --repeats 2"
    ),
    "bench-engines-late-rank": Recording(
        f"{_BENCH} --np 2 --num-steps 20 --engine horovod,ddp --repeats 2",
        environment={"HVDPROF_FAULTS": "sleep:phase=forward,rank=1,amount=40ms"},
    ),
    "horovod-sweep": Recording(
        f"run --np 1,2 --controller gloo --num-steps 40 -- {_USER_SCRIPT} --epochs 20"
    ),
    "horovod-slow-data": Recording(
        f"{_GLOO} --num-steps 40 -- {_USER_SCRIPT} --epochs 20 --slow data"
    ),
    "ddp-alone-pauses": Recording(
        f"run --launcher torchrun --np 1 --no-trace -- {_DDP_SCRIPT} --steps 90",
        environment={"HVDPROF_FAULTS": "pause:rank=0,amount=40ms,every=15"},
    ),
    "horovod-failed": Recording(f"{_GLOO} --no-trace -- {_USER_SCRIPT} --fail-at 10", exit_code=6),
    "ddp-sweep": Recording(
        "run --np 1,2 -- torchrun --nproc-per-node 2 --standalone tests/builders/ddp_script.py"
    ),
    "ddp-slow-backward": Recording(
        f"run {_TORCHRUN} --no-trace"
        f" -- {_DDP_SCRIPT} --kind accumulate --fault backward:rank=1:ms=15"
    ),
    "ddp-light-slow-update": Recording(
        f"run --light {_TORCHRUN} -- {_DDP_SCRIPT} --steps 150 --fault update:rank=1:ms=15"
    ),
    "ddp-hang": Recording(
        f"run {_TORCHRUN} --no-trace --timeout 20"
        " -- python tests/builders/hanging_script.py --engine ddp --sleep",
        exit_code=6,
    ),
    "fsdp-slow-backward": Recording(
        f"run --no-trace --num-steps 25 --num-warmup-batches 3 {_TORCHRUN}"
        " -- python tests/builders/fsdp_script.py"
        " --late-rank 1 --late-phase backward --late-ms 60"
    ),
    "horovod-evaluated": Recording(
        "run --np 2 --controller mpi --num-steps 40"
        f" -- {_USER_SCRIPT} --epochs 20 --evaluate --slow between"
    ),
    "horovod-accumulate-slow-forward": Recording(
        "run --np 1,2 --no-interleave --no-trace --num-steps 30"
        f" -- {_USER_SCRIPT} --accumulate=4 --epochs 20 --slow forward"
    ),
    "horovod-by-hand-slow-between": Recording(
        "run --np 2 --no-trace --num-steps 30"
        f" -- {_USER_SCRIPT} --by-hand --accumulate=2 --epochs 20 --slow between"
    ),
    "horovod-prefetch-slow-backward": Recording(
        "run --np 2 --no-trace --controller mpi"
        f" -- {_USER_SCRIPT} --prefetch --by-hand --evaluate --epochs 6 --slow backward"
    ),
    "ddp-slow-forward": Recording(
        f"run {_TORCHRUN} --no-trace -- {_DDP_SCRIPT} --fault forward:rank=1:ms=60"
    ),
    "ddp-trainer-slow-data": Recording(
        "run --launcher mpirun --np 2 --no-trace --num-threads 1 --env MASTER_PORT=29555"
        f" -- {_DDP_SCRIPT} --kind trainer --fault data:rank=1:ms=60"
    ),
    "ddp-code-lines": Recording(
        f"run {_TORCHRUN} --no-trace"
        " -- python benchmarks/scripts/lined.py --place hook --rank 1 --ms 30 --steps 100",
        environment={"PYTHONPATH": "."},
    ),
    "fsdp-slow-data": Recording(f"{_FSDP} --late-phase data"),
    "fsdp-slow-forward": Recording(f"{_FSDP} --late-phase forward"),
}
"""By name; the order is that of recording."""

BESIDE_LOAD = {
    "ddp-clean-beside-load": "equal ranks beside other processes, load 9.7",
    "horovod-shared-core": "a program of the script computes on the core of rank 1",
}
"""Runs of `hvdprof run --np 2 --no-trace` on two cores beside a load that no command repeats."""


def unpacked(name: str, folder: Path) -> Path:
    """A recorded run, as a folder of its name in ``folder``."""
    with tarfile.open(PACKED / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / name


def record(name: str) -> Path:
    """Run the command of a recording, and pack what it wrote.

    Raises:
        RuntimeError: The command ended with another exit code.
    """
    recording = RECORDED[name]
    kind, *arguments = shlex.split(recording.command)
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / name
        done = subprocess.run(
            [sys.executable, "-m", "hvdprof", kind, "-q", "-o", str(run), *arguments],
            cwd=ROOT,
            env={**os.environ, **recording.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != recording.exit_code:
            raise RuntimeError(f"{name} ended with exit code {done.returncode}: {done.stderr}")
        return _pack(run, {place: "/home/user/runs", str(ROOT): "/home/user/hvdprof"})


def _pack(run: Path, names: dict[str, str]) -> Path:
    """Pack the files of a run; the same files give the same bytes."""
    names = {**names, socket.gethostname(): "host1"}
    target = PACKED / f"{run.name}.tar.xz"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        for path in sorted(run.rglob("*")):
            if not path.is_file() or path.suffix in _NOT_PACKED:
                continue
            content = path.read_bytes()
            for own, shown in names.items():
                whole = rb"(?<!\w)%b(?!\w)" % re.escape(own.encode())
                content = re.sub(whole, shown.encode(), content)
            entry = tarfile.TarInfo(f"{run.name}/{path.relative_to(run)}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(lzma.compress(stream.getvalue(), preset=9))
    return target


def main() -> None:
    """Record the runs of the command line, or all."""
    for name in sys.argv[1:] or RECORDED:
        path = record(name)
        print(f"{name:30} {path.stat().st_size / 1024:6.0f} KiB", flush=True)


if __name__ == "__main__":
    main()
