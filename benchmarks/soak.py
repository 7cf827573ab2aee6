"""How many launches of a recorded DDP script end badly: short launches, one after the other.

    python -m benchmarks.soak --launches 200                  recorder and Flight Recorder
    python -m benchmarks.soak --launches 200 --bare           the script alone
    python -m benchmarks.soak --launches 200 --minutes 30     as many as begin within that time

Each is the trace launch of ``hvdprof run``: two ranks of Gloo under ``torchrun``, whose steps
sleep. A thread of Gloo may end a rank by SIGABRT at its exit, after everything was measured
(docs/howto/engines.md). A launch of which a rank ends by a signal, or leaves no complete recording
or no dump of the Flight Recorder, counts under its own name. The exit code is 1 if there was any.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from hvdprof.collect.auto.startup import FOLDER as STARTUP_FOLDER
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.rundir.launch_format import AUTORECORD, FLIGHT_FOLDER, AutoSettings

NUM_RANKS = 2
FLIGHT_ENTRIES = 2000
TIMEOUT_S = 120.0
DONE = "done"

SCRIPT = Path(__file__).parent / "scripts" / "soaked_ddp.py"


def environment(folder: Path) -> dict[str, str]:
    """The variables of a trace launch of ``hvdprof run`` that writes into a folder."""
    automatic = AutoSettings(
        num_warmup_steps=2, num_steps=None, batch_size=None, timeline="", num_timeline_steps=0
    )
    path = os.pathsep.join(filter(None, [str(STARTUP_FOLDER), os.environ.get("PYTHONPATH", "")]))
    return {
        AUTORECORD: automatic.to_text(),
        RECORDER_DIR: str(folder / "recorder"),
        FLIGHT_FOLDER: str(folder / "flight"),
        "TORCH_FR_BUFFER_SIZE": str(FLIGHT_ENTRIES),
        "PYTHONPATH": path,
    }


def launch(folder: Path, *, is_bare: bool) -> str:
    """How one launch ends: ``done``, a signal of a rank, or what is missing."""
    (folder / "recorder").mkdir()
    own = {} if is_bare else environment(folder)
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--local-addr=127.0.0.1", f"--nproc-per-node={NUM_RANKS}", "--max-restarts=0"),
        str(SCRIPT),
    ]
    try:
        ended = subprocess.run(
            command,
            # torchrun leaves a folder of logs behind.
            env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder), **own},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"hung for {TIMEOUT_S:.0f} s"
    if ended.returncode:
        found = re.search(r"exitcode\s*: -(\d+)", ended.stderr)
        return f"signal {found[1]}" if found else f"exit code {ended.returncode}"
    return DONE if is_bare else _completeness(folder)


def _completeness(folder: Path) -> str:
    for rank in range(NUM_RANKS):
        lines = (folder / "recorder" / f"rank-{rank}.jsonl").read_text().splitlines()
        if not lines or json.loads(lines[-1])["kind"] != "end":
            return "incomplete recording"
        if not (folder / "flight" / f"rank-{rank}.json").exists():
            return "no Flight Recorder file"
    return DONE


def main() -> int:
    """Launch, and print one line per bad end and one in all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--bare", action="store_true", help="neither recorder nor Flight Recorder")
    options = parser.parse_args()
    ends: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(1, options.launches + 1):
        if time.monotonic() - began > 60 * options.minutes:
            break
        with tempfile.TemporaryDirectory(prefix="soak") as folder:
            end = launch(Path(folder), is_bare=options.bare)
        ends[end] += 1
        if end != DONE or number % 10 == 0:
            print(f"{number}: {end}; so far {dict(ends)}", flush=True)
    num = ends.total()
    bad = num - ends[DONE]
    print(f"{bad} of {num} launches ended badly: {dict(ends)}")
    if num and not bad:
        print(f"Fewer than {1 - 0.05 ** (1 / num):.1%} do so, at 95 % confidence.")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
