"""`run --watch` names a slow rank on a host that does not see the run directory, while it runs.

Hosts are network namespaces of this machine, each with a folder of its own.
"""

from pathlib import Path

import pytest

from hvdprof.api import load_run
from hvdprof.rundir.recording.stall_format import EventKind
from tests.builders import late_script
from tests.builders.network_hosts import network_hosts

pytestmark = [
    pytest.mark.horovod,
    pytest.mark.warm,
    pytest.mark.root,
    pytest.mark.timeout(600),
]


@pytest.mark.ran(
    "`hvdprof run --watch --hosts` without a common file system",
    "torch 2.13 with Gloo, over a stand-in for ssh",
    "two network namespaces of one host",
)
def test_a_slow_rank_on_a_host_without_common_files_is_named(tmp_path: Path) -> None:
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    for folder in (runs, elsewhere):
        folder.mkdir()
    with network_hosts(tmp_path / "hosts") as hosts:
        hosts.hide(hosts.names[1], runs, behind=elsewhere)
        done = hosts.hvdprof(
            *("run", "-q", "-o", str(runs / "run"), "--hosts", hosts.argument, "--np", "2"),
            *("--launcher", "torchrun", "--no-trace", "--no-net", "--light", "--watch"),
            *("--", "python", str(late_script.__file__), "38"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert hosts.processes() == []
        assert "straggler begun" in done.stderr
        assert f"Rank 1 on {hosts.names[1]}" in done.stderr
    run = load_run(runs / "run")
    assert not any("was not seen" in text for text in run.manifest.warnings)
    events = run.tables["watched_events"]
    assert EventKind.STRAGGLER in set(events["event"])
    (copied,) = runs.glob("run/passes/*/recorder/rank-1.jsonl")
    (written,) = elsewhere.glob("run/passes/*/recorder/rank-1.jsonl")
    assert not list(tmp_path.rglob("watched"))
    assert copied.read_bytes() == written.read_bytes()
