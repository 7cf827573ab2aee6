import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hvdprof.launch.processes import own_folders
from hvdprof.launch.processes.own_folders import PREFIX, OwnFolders, remove_left_over

SESSIONS = ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
SEGMENTS = ("OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where folders are made; the one of pytest is too long for the sockets of Open MPI."""
    monkeypatch.setattr(own_folders, "LONGEST_BASE", 4_000)
    return tmp_path


def own_of(base: Path, environment: dict[str, str], *, is_on_this_host: bool = True) -> OwnFolders:
    return OwnFolders(environment, base / "logs", is_on_this_host=is_on_this_host)


def test_each_launch_gets_folders_of_its_own_that_are_gone_afterwards(base: Path) -> None:
    environment = {"TMPDIR": str(base)}
    first, second = (own_of(base, environment) for _ in range(2))
    assert set(first.variables) == {*SESSIONS, *SEGMENTS, "PET_LOG_DIR"}
    names = (*SESSIONS, *SEGMENTS)
    own = [{first.variables[name] for name in names}, {second.variables[name] for name in names}]
    assert not own[0] & own[1]
    folders = [Path(one) for one in sorted(own[0] | own[1])]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
    assert {folder.parent for folder in folders} == {base, Path("/dev/shm")}
    for folder in folders:
        (folder / "left" / "by a rank").mkdir(parents=True)
    first.remove()
    second.remove()
    assert not any(folder.exists() for folder in folders)


def test_other_hosts_are_not_given_folders_that_they_do_not_have(base: Path) -> None:
    own = own_of(base, {"TMPDIR": str(base)}, is_on_this_host=False)
    assert set(own.variables) == {"PET_LOG_DIR"}
    own.remove()


@pytest.mark.parametrize("name", [*SESSIONS, "OMPI_MCA_orte_local_tmpdir_base"])
def test_the_choice_of_the_user_holds(base: Path, name: str) -> None:
    own = own_of(base, {"TMPDIR": str(base), name: "/scratch"})
    assert set(own.variables) == {*SEGMENTS, "PET_LOG_DIR"}
    own.remove()


def test_a_path_too_long_for_sockets_is_replaced(base: Path, monkeypatch) -> None:
    monkeypatch.setattr(own_folders, "LONGEST_BASE", 40)
    own = own_of(base, {"TMPDIR": f"{base}{'x' * 60}"})
    assert Path(own.variables[SESSIONS[0]]).parent == Path("/tmp")
    own.remove()


def test_a_folder_that_cannot_be_written_to_is_replaced(base: Path) -> None:
    own = own_of(base, {"TMPDIR": str(base / "missing")})
    assert Path(own.variables[SESSIONS[0]]).parent == Path("/tmp")
    own.remove()


def test_logs_of_torchrun_stay_and_its_empty_folders_go(base: Path) -> None:
    own = own_of(base, {}, is_on_this_host=False)
    logs = Path(own.variables["PET_LOG_DIR"])
    (logs / "empty" / "attempt_0" / "0").mkdir(parents=True)
    (logs / "used" / "attempt_0" / "0").mkdir(parents=True)
    (logs / "used" / "attempt_0" / "0" / "stdout.log").write_text("step 1\n")
    own.remove()
    assert [path.name for path in logs.rglob("*") if path.is_file()] == ["stdout.log"]
    assert [path.name for path in logs.iterdir()] == ["used"]


def test_folders_of_dead_launches_are_removed_and_those_of_living_ones_stay(base: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from hvdprof.launch.processes.own_folders import OwnFolders\n"
        "from hvdprof.launch.processes import own_folders; own_folders.LONGEST_BASE = 4000\n"
        "own = OwnFolders({'TMPDIR': sys.argv[1]}, Path('logs'), is_on_this_host=True)\n"
        "print('made', flush=True); sys.stdin.read()"
    )
    launching = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for one in launching:
        assert one.stdout is not None and one.stdout.readline() == b"made\n"
    killed, alive = launching
    killed.kill()
    killed.communicate()
    other = base / "of-another-user"
    other.mkdir()
    assert len(list(base.glob(f"{PREFIX}*"))) == 2

    remove_left_over(base)

    assert len(list(base.glob(f"{PREFIX}*"))) == 1
    assert other.exists()
    alive.communicate()
    assert not list(base.glob(f"{PREFIX}*"))


def test_a_folder_that_is_just_being_made_stays_and_an_old_one_goes(base: Path) -> None:
    made = base / f"{PREFIX}new"
    made.mkdir()
    remove_left_over(base)
    assert made.exists()
    an_hour_ago = time.time() - 3600
    os.utime(made, (an_hour_ago, an_hour_ago))
    remove_left_over(base)
    assert not made.exists()


def test_a_link_to_another_folder_is_not_followed(base: Path) -> None:
    target = base / "precious"
    target.mkdir()
    (target / "in-use").touch()
    (base / f"{PREFIX}link").symlink_to(target)
    remove_left_over(base)
    assert (target / "in-use").exists()
