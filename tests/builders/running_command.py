"""Commands of hvdprof that run while a test looks on, and what their ranks have recorded so far."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HVDPROF = [sys.executable, "-m", "hvdprof"]


def hvdprof(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [*HVDPROF, *arguments], cwd=cwd, capture_output=True, text=True, timeout=600
    )


@contextlib.contextmanager
def started(*arguments: str, cwd: Path) -> Iterator["subprocess.Popen[str]"]:
    """A command that is ended with the block at the latest."""
    with subprocess.Popen(
        [*HVDPROF, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def wait_for(condition: Callable[[], Any], seconds: float = 240.0) -> Any:
    """What a condition returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")


def pids_in_step(run: Path, step: int) -> dict[int, int]:
    """Process ids by rank, once both have done that many steps of a two-rank pass."""
    for folder in sorted((run / "passes").glob("*np2*/recorder")):
        ranks = [_lines(folder / f"rank-{rank}.jsonl") for rank in (0, 1)]
        if all(sum(line["kind"] == "step" for line in lines) >= step for lines in ranks):
            return {rank: lines[0]["pid"] for rank, lines in enumerate(ranks)}
    return {}


def fill_disk(folder: Path) -> Path:
    """A file that takes all the space that is left on the file system of a folder."""
    path = folder / "filler"
    with contextlib.suppress(OSError), path.open("wb") as filler:
        while True:
            filler.write(bytes(1_000_000))
            filler.flush()
    return path


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    *whole, _ = path.read_text().split("\n")
    return [json.loads(line) for line in whole]
