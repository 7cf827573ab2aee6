"""Whether the first command fails for a reason that is not the user's: quick runs beside others.

    python -m benchmarks.first_day --runs 40
    python -m benchmarks.first_day --runs 40 --minutes 30     as many as begin within that time

A loop starts and ends short mpiruns of the same user in the usual session directory, and another
``hvdprof bench`` runs again and again in a second folder. Beside them shortened quick runs are
measured one after the other. A run counts as failed with its exit code; in the runs that are left,
failed measurements and launches that were started again are counted. At the end no process of a
launch, no folder for sessions or logs and no segment of shared memory may be left. The exit code is
1 if anything failed or was left.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from hvdprof.launch.plan.environment import PASS_MARK
from hvdprof.launch.processes.own_folders import PREFIX
from hvdprof.machine.mpi import find_mpi
from hvdprof.rundir.manifest import Manifest, Status

SHORTENED = ("--preset", "quick", "--models", "mnist", "--num-steps", "20", "--repeats", "1")
TIMEOUT_S = 600.0


def measured(folder: Path) -> tuple[int, Manifest | None, float, str]:
    """Exit code, manifest, seconds and the last lines of one shortened quick run."""
    begin = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "hvdprof", "bench", *SHORTENED, "--output", str(folder)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    manifest = Manifest.read(folder) if (folder / "manifest.json").exists() else None
    return ended.returncode, manifest, time.monotonic() - begin, ended.stderr[-2_000:]


class Neighbours:
    """The loop of short mpiruns and the other ``hvdprof bench``, in threads until ``stop``."""

    def __init__(self, mpirun: str, folder: Path) -> None:
        self.ends: Counter[str] = Counter()
        self._is_over = threading.Event()
        as_root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        short = (mpirun, *as_root, "--oversubscribe", "-np", "1", "true")
        self._threads = [
            threading.Thread(target=self._repeat, args=("mpirun", lambda number: short)),
            threading.Thread(
                target=self._repeat, args=("bench", lambda number: self._bench(folder, number))
            ),
        ]
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        """End both after what they have begun."""
        self._is_over.set()
        for one in self._threads:
            one.join()

    def _bench(self, folder: Path, number: int) -> tuple[str, ...]:
        output = str(folder / f"neighbour-{number}")
        return (sys.executable, "-m", "hvdprof", "bench", *SHORTENED, "--output", output)

    def _repeat(self, name, command_of) -> None:  # type: ignore[no-untyped-def]
        number = 0
        while not self._is_over.is_set():
            ended = subprocess.run(
                command_of(number),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
            )
            number += 1
            self.ends[f"{name} {'done' if ended.returncode == 0 else 'failed'}"] += 1


def left_over() -> set[str]:
    """Processes, folders and segments of launches that exist now."""
    temporary = Path(tempfile.gettempdir())
    folders = [*temporary.glob(f"{PREFIX}*"), *temporary.glob("torchelastic_*")]
    segments = [path for path in Path("/dev/shm").iterdir() if path.lstat().st_uid == os.geteuid()]
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if PASS_MARK.encode() in (folder / "environ").read_bytes():
                processes.append(f"process {folder.name}")
        except OSError:
            # It has ended meanwhile, or belongs to another user.
            continue
    return {*map(str, folders), *map(str, segments), *processes}


def main() -> int:
    """Measure; print a line per run that is not clean, and the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    mpi = find_mpi()
    if mpi is None:
        sys.exit("There is no mpirun here.")
    before = left_over()
    counts: Counter[str] = Counter()
    seconds: list[float] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="first-day-") as name:
        neighbours = Neighbours(mpi.mpirun, Path(name))
        try:
            for number in range(1, options.runs + 1):
                if time.monotonic() - began > 60 * options.minutes:
                    break
                code, manifest, took_s, printed = measured(Path(name) / f"run-{number}")
                seconds.append(took_s)
                counts["runs"] += 1
                counts["failed runs"] += code != 0
                passes = manifest.passes if manifest is not None else []
                counts["launches"] += len(passes)
                failed = sum(
                    one.status in (Status.FAILED, Status.PARTIAL)
                    for record in passes
                    for one in record.segments
                )
                counts["failed measurements"] += failed
                restarts = [reason for record in passes for reason in record.restarts]
                counts["launches started again"] += len(restarts)
                if code or failed:
                    print(f"run {number}: exit code {code}, {failed} failed\n{printed}")
                for reason in restarts:
                    print(f"run {number}: started again: {reason}", flush=True)
        finally:
            neighbours.stop()
        left = left_over() - before
    result = {
        **counts,
        "beside": dict(neighbours.ends),
        "left over": sorted(left),
        "median seconds": round(sorted(seconds)[len(seconds) // 2], 1) if seconds else None,
    }
    print(json.dumps(result, indent=1))
    return int(bool(counts["failed runs"] or counts["failed measurements"] or left))


if __name__ == "__main__":
    sys.exit(main())
