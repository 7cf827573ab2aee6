"""Stands in for a launcher with all its ranks: reads the plan, writes recorder files, fails.

    python fake_ranks.py --plan PLAN

FAKE_FAULT is `KIND:SEGMENT` with KIND `raise`, `kill`, `hang`, `orphan` (a hang that leaves a
process of another session behind), `stuck` (a hang before the first step), `silent` (ends well but
the segment is not recorded) or `start` (fails before any segment). With `:once` appended it fails
only until the file FAKE_ONCE exists.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.builders.recorder_lines import host_of


def main() -> None:
    """Run the plan."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", type=Path)
    plan = json.loads(parser.parse_known_args()[0].plan.read_text())
    kind, at = _fault()
    if kind == "start":
        sys.exit("[1,0]<stderr>:ImportError: no module named model")
    folder = Path(os.environ["HVDPROF_RECORDER_DIR"])
    files = [(folder / f"rank-{rank}.jsonl").open("a") for rank in range(plan["size"])]
    for rank, file in enumerate(files):
        _write(
            file,
            {
                "kind": "header",
                "rank": rank,
                "size": plan["size"],
                "affinity": [rank],
                "host": host_of("node1", num_cores=4),
            },
        )
    for segment in plan["segments"]:
        if not (kind == "silent" and segment["id"] == at):
            _train(segment, files, kind if segment["id"] == at else "")
    for file in files:
        _write(file, {"kind": "end"})


def _train(segment, files, kind):
    if kind == "stuck":
        _fail(kind)
    for file in files:
        _write(file, {"kind": "segment", "id": segment["id"], "tensors": []})
    for step in range(segment["num_steps"]):
        # The rank at fault is the last one, and it stops after step 3.
        for file in files[:-1] if kind and step > 3 else files:
            _write(file, {"kind": "step", "segment": segment["id"], "step": step})
    if kind:
        _fail(kind)
    for file in files:
        _write(file, {"kind": "segment_end", "id": segment["id"]})


def _fault() -> tuple[str, str]:
    kind, _, rest = os.environ.get("FAKE_FAULT", ":").partition(":")
    segment, _, once = rest.partition(":")
    if once:
        done = Path(os.environ["FAKE_ONCE"])
        if done.exists():
            return "", ""
        done.touch()
    return kind, segment


def _fail(kind: str) -> None:
    if kind == "raise":
        sys.exit("[1,1]<stderr>:ValueError: bad batch")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "orphan":
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    time.sleep(600)


def _write(file, record) -> None:
    file.write(json.dumps(record) + "\n")
    file.flush()


if __name__ == "__main__":
    main()
