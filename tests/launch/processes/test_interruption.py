"""Processes are ended where the side that launched them is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hvdprof.launch.plan.environment import PASS_MARK
from hvdprof.launch.processes.interruption import OrphanGuard
from hvdprof.launch.processes.marked_processes import marked_processes
from tests.builders.places import ROOT
from tests.builders.processes import is_running

LAUNCHING = """
import os, sys
from pathlib import Path
from hvdprof.launch.processes.launch_process import Watch, run_to_end

folder = Path(sys.argv[1])
run_to_end(
    ["bash", "-c", f"{sys.argv[2]} sleep 321.5 & echo $! > {folder}/pid; disown; sleep 3600"],
    dict(os.environ),
    stdout=folder / "out",
    stderr=folder / "err",
    watch=Watch(progress=lambda: 0, timeout_s=600.0),
)
"""


def _wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def _is_written(path: Path) -> bool:
    return path.exists() and bool(path.read_text().strip())


@pytest.mark.parametrize("started_by", ["setsid", "env -i setsid"])
def test_a_launching_side_that_is_killed_leaves_no_rank_behind(
    tmp_path: Path, started_by: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHING, str(tmp_path), started_by],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        # As a shell that is killed with all that it started, but for what has left its group.
        start_new_session=True,
    ) as launching:
        assert _wait_for(lambda: _is_written(tmp_path / "pid"))
        rank = int((tmp_path / "pid").read_text())
        assert is_running(rank)
        assert _wait_for(lambda: "sleep" in Path(f"/proc/{rank}/cmdline").read_text())
        os.killpg(launching.pid, signal.SIGKILL)
    assert _wait_for(lambda: not is_running(rank))


def test_the_commands_run_only_where_the_guard_is_not_dismissed(tmp_path: Path) -> None:
    dismissed = OrphanGuard(["touch", str(tmp_path / "dismissed")])
    dismissed.dismiss()
    script = (
        "import os, sys\n"
        "from hvdprof.launch.processes.interruption import OrphanGuard\n"
        "guard = OrphanGuard(*(['touch', name] for name in sys.argv[1:]))\n"
        "os._exit(0)\n"
    )
    names = [str(tmp_path / name) for name in ("it's one", "two")]
    subprocess.run(
        [sys.executable, "-c", script, *names],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert _wait_for(lambda: all(Path(name).exists() for name in names))
    assert not (tmp_path / "dismissed").exists()


def test_the_guard_does_not_belong_to_a_surrounding_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = f"outer-{os.getpid()}"
    monkeypatch.setenv(PASS_MARK, mark)
    guard = OrphanGuard(["true"])
    assert marked_processes(mark) == []
    guard.dismiss()
