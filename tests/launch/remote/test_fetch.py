import os
import threading
from pathlib import Path

import pytest

from hvdprof.launch.remote.fetch import FETCH_AFTER_S, WatchFetch, fetch, module_error, on_each
from hvdprof.launch.remote.remote_shell import HostShell
from hvdprof.rundir.layout import PassPaths, watched_mark


@pytest.fixture
def far(tmp_path: Path) -> HostShell:
    """A remote shell to a host that has another folder where the pass is here."""
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/bash\nexec /bin/bash -c "${2//\\/here/\\/there}"\n')
    agent.chmod(0o755)
    return HostShell((str(agent),), dict(os.environ))


@pytest.fixture
def paths(tmp_path: Path) -> PassPaths:
    there = PassPaths(tmp_path / "there")
    for path in (there.watch_file(1), there.stack_file(1), there.recorder_file(1)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    here = PassPaths(tmp_path / "here")
    here.folder.mkdir()
    return here


def test_all_that_ranks_write_is_fetched(far: HostShell, paths: PassPaths) -> None:
    assert fetch(paths, ["far"], far) == {}
    for path in (paths.watch_file(1), paths.stack_file(1), paths.recorder_file(1)):
        assert path.read_text() == path.name


def test_the_mark_of_a_watcher_stays_there(far: HostShell, paths: PassPaths) -> None:
    watched_mark(paths.recorder_folder.parent.parent / "there" / "recorder").touch()
    assert fetch(paths, ["far"], far) == {}
    assert sorted(path.name for path in paths.recorder_folder.iterdir()) == ["rank-1.jsonl"]


def test_the_reason_for_a_failed_fetch_is_reported(paths: PassPaths) -> None:
    shell = HostShell(("/bin/sh", "-c", "echo the disk is gone >&2; exit 5"), {})
    assert fetch(paths, ["far"], shell) == {"far": "the disk is gone"}
    assert fetch(paths, ["far"], HostShell(("true",), {})) == {"far": "no files came back"}
    (reason,) = fetch(paths, ["far"], HostShell(("/no/such/agent",), {})).values()
    assert "/no/such/agent" in reason
    (reason,) = fetch(PassPaths(paths.folder / "absent"), ["far"], shell).values()
    assert "No such file or directory" in reason


def test_files_are_fetched_only_while_no_rank_makes_progress(
    far: HostShell, paths: PassPaths
) -> None:
    now_s = [100.0]
    standing = WatchFetch(paths, ["far"], far, lambda: now_s[0])
    for progress in range(20):
        now_s[0] += 2
        standing.look(progress)
    assert not paths.watch_folder.exists()
    now_s[0] += FETCH_AFTER_S
    standing.look(progress)
    for thread in threading.enumerate():
        if thread.name == "hvdprof fetch":
            thread.join(60)
    assert paths.watch_file(1).read_text() == paths.watch_file(1).name
    assert not paths.recorder_folder.exists()


def test_hosts_that_see_the_folder_are_left_alone(far: HostShell, paths: PassPaths) -> None:
    now_s = [100.0]
    standing = WatchFetch(paths, [], far, lambda: now_s[0])
    for _ in range(5):
        now_s[0] += 10
        standing.look(1)
    assert not paths.watch_folder.exists()


def test_something_on_every_host_at_once() -> None:
    meeting = threading.Barrier(3, timeout=20)

    def act(name: str) -> str:
        meeting.wait()
        return "" if name == "b" else f"{name} is full"

    assert on_each(["a", "b", "c"], act) == {"a": "a is full", "c": "c is full"}
    assert on_each([], act) == {}


def test_the_last_line_of_stderr_is_reported() -> None:
    shell = HostShell(("/bin/sh", "-c", "cat >&2; exit 1"), {})
    assert module_error(shell, "far", ("some.module",), b"first\nlast\n\n") == "last"
    assert module_error(HostShell(("true",), {}), "far", ("some.module",)) == ""
