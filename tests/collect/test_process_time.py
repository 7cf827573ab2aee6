import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hvdprof.collect import segment_recording
from hvdprof.collect.segment_recording import process_tree_time_ns

pytestmark = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(),
    reason="the system does not list children",
)

WORKER = """
import sys, time
while time.process_time() < 0.3:
    pass
print("done", flush=True)
sys.stdin.read()
"""
# As a data loader whose workers come from a server of processes.
BELOW = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def _time_ns() -> int:
    found = process_tree_time_ns()
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("command", [("-c", WORKER), ("-c", BELOW, WORKER)])
def test_workers_count_while_they_live_and_afterwards(command: tuple[str, ...]) -> None:
    before_ns, own_ns = _time_ns(), time.process_time_ns()
    with subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None and worker.stdout.readline() == "done\n"
        alive_ns = _time_ns() - before_ns
        worker.communicate()
    ended_ns = _time_ns() - before_ns
    own_ns = time.process_time_ns() - own_ns
    # The kernel counts the time of living processes in ticks of 10 ms.
    assert alive_ns >= 270_000_000
    assert own_ns + 270_000_000 <= ended_ns
    assert alive_ns <= ended_ns + 30_000_000


def test_it_is_unknown_where_children_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_recording, "_PROC", tmp_path)
    assert process_tree_time_ns() is None
    (tmp_path / str(os.getpid()) / "task" / "1").mkdir(parents=True)
    assert process_tree_time_ns() is None
