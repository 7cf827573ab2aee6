"""What the list of runs of the dashboard costs: its first look, and each look of an open page.

    python -m benchmarks.dashboard_listing

Synthetic folders of bounded size, removed at the end: 300 runs of 12 launches with the recorder
files of 8 ranks each, and one run of 20,000 launches without recordings. An open page looks once
per second.
"""

import argparse
import copy
import json
import tempfile
import time
from pathlib import Path

from hvdprof.dashboards.run_rows import rows_of
from hvdprof.dashboards.run_store import RunStore

NUM_RUNS, NUM_PASSES, NUM_RANKS = 300, 12, 8
MOST_PASSES = 20_000
NUM_LOOKS = 2


def main() -> None:
    """Print seconds of the processor of the first look, and of each later one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=NUM_RUNS, help="at most 1,000")
    parser.add_argument("--passes", type=int, default=MOST_PASSES, help="at most 20,000")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hvdprof-listing-") as folder:
        many, long = Path(folder, "many"), Path(folder, "long")
        for number in range(min(given.runs, 1_000)):
            _write_run(many / f"run-{number:04d}", NUM_PASSES, NUM_RANKS)
        _write_run(long / "run", min(given.passes, MOST_PASSES), 0)
        for what, watched in (("many runs", many), ("a run of many launches", long)):
            print(f"{what}: {_looked_at(watched)}")


def _looked_at(watched: Path) -> str:
    runs = RunStore([], watched=[watched])
    used_s = []
    for _ in range(1 + NUM_LOOKS):
        used = time.process_time()
        rows_of(runs)
        used_s.append(time.process_time() - used)
        # What was seen a second ago is looked at anew.
        time.sleep(1.0)
    later_s = sum(used_s[1:]) / NUM_LOOKS
    return f"first look {used_s[0]:.2f} s, each later one {later_s:.3f} s of the processor"


def _write_run(folder: Path, num_passes: int, num_ranks: int) -> None:
    segment = {
        "id": "mnist-horovod-none-average",
        "engine": "horovod",
        "model": "mnist",
        "compression": "none",
        "reduction": "average",
        "batch_size": 32,
        "image_size": 28,
        "num_warmup_batches": 2,
        "num_steps": 60,
        "max_seconds": None,
        "timeline": False,
    }
    record = {
        "mode": "throughput",
        "size": 8,
        "repeat": 1,
        "controller": "gloo",
        "oversubscribed": False,
        "pinned": True,
        "segments": [{"segment": segment, "status": "done"}],
        "status": "done",
        "command": ["horovodrun", "-np", "8", "python", "-m", "hvdprof.bench_models.train"],
        "environment": {f"HOROVOD_{name}": "1" for name in range(12)},
    }
    passes = [
        copy.copy(record) | {"id": f"{number:05d}-np8-throughput-r1"}
        for number in range(num_passes)
    ]
    manifest = {
        "schema_version": 1,
        "hvdprof_version": "0.1.0",
        "name": folder.name,
        "created_at": "2026-11-20T22:48:41+00:00",
        "command": ["hvdprof", "bench"],
        "settings": {},
        "environment": {},
        "versions": {},
        "hosts": [],
        "git": None,
        "passes": passes,
        "skipped": [],
        "status": "done",
    }
    for one in passes if num_ranks else ():
        recorder = folder / "passes" / str(one["id"]) / "recorder"
        recorder.mkdir(parents=True)
        for rank in range(num_ranks):
            (recorder / f"rank-{rank}.jsonl").touch()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


if __name__ == "__main__":
    main()
