"""What files cost that hold little: endless lines, zeros, small files, folders without anything.

    .venv/bin/python benchmarks/odd_files.py --repeats 3

Each is made in a temporary folder (1.7 GB) and given to `hvdprof analyze`, a fresh process each;
the median of its CPU seconds, with start and imports, stands beside the goal.
"""

import argparse
import gzip
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIMELINE = (
    ROOT / "tests" / "ingest" / "recordings" / "12_dynamic_b_started_midop.json"
).read_bytes()
MEGABYTE = 1_000_000


def eight_bytes(path: Path) -> None:
    """A file of 8 bytes."""
    path.write_bytes(b"nothing\n")


def long_line(path: Path) -> None:
    """One line of 200 MB."""
    with path.open("wb") as file:
        for _ in range(200):
            file.write(b"some words and 12.5 more " * (MEGABYTE // 25))


def zeros_behind_a_timeline(path: Path) -> None:
    """A timeline with 500 MB of zeros behind it."""
    path.write_bytes(TIMELINE + bytes(500 * MEGABYTE))


def zeros_behind_a_log(path: Path) -> None:
    """A log with 500 MB of zeros behind it."""
    path.write_bytes(b"Total img/sec on 2 GPU(s): 20.0 +-0.5\n" + bytes(500 * MEGABYTE))


def packed_zeros(path: Path) -> None:
    """A timeline with 10 GB of zeros behind it, in a gzip file."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(TIMELINE)
        for _ in range(100):
            file.write(bytes(100 * MEGABYTE))


def folder(path: Path) -> None:
    """A folder of 9,999 small files that hold nothing, and one that holds a little."""
    path.mkdir()
    for number in range(9_999):
        (path / f"{number}.txt").write_text(f"some words {number}\n")
    (path / "job.out").write_text("Total img/sec on 2 GPU(s): 20.0 +-0.5\n")


CASES: dict[Callable[[Path], None], float] = {
    eight_bytes: 0.5,
    long_line: 5,
    zeros_behind_a_timeline: 5,
    zeros_behind_a_log: 5,
    packed_zeros: 5,
    folder: 50,
}
"""Each with its goal in CPU seconds."""


def main() -> None:
    """Measure all cases and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print("| input | CPU s | goal | load |\n|---|---|---|---|")
    for make, goal in CASES.items():
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "given"
            make(path)
            measured = [cpu_s(path) for _ in range(options.repeats)]
        what = (make.__doc__ or "").rstrip(".")
        print(f"| {what} | {statistics.median(measured):.2f} | {goal} | {os.getloadavg()[0]:.0f} |")


def cpu_s(path: Path) -> float:
    """CPU seconds of `hvdprof analyze` on a path; nothing usable in it is a result too."""
    before = _children_s()
    command = [sys.executable, "-m", "hvdprof", "analyze", str(path)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{path}: {done.stderr}")
    return _children_s() - before


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
