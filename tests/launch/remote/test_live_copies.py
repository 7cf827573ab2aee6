"""Recordings of a host that has another folder, copied while a watcher follows."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.launch.remote import live_copies
from hvdprof.launch.remote.live_copies import CopiedFolder, LiveCopies
from hvdprof.launch.remote.live_files import Piece
from hvdprof.launch.remote.remote_shell import HostShell
from hvdprof.rundir.layout import request_file, watched_mark
from hvdprof.rundir.rank_requests import Request, read_requests, write_requests

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def far(tmp_path: Path) -> HostShell:
    """A remote shell to a host that has another folder where the pass is here."""
    agent = tmp_path / "agent"
    agent.write_text(
        f'#!/bin/bash\n[ -e {tmp_path}/cut ] && {{ echo "No route to host" >&2; exit 255; }}\n'
        f"echo $$ >>{tmp_path}/pids; echo Welcome\n"
        'exec /bin/bash -c "${2//\\/here/\\/there}"\n'
    )
    agent.chmod(0o755)
    return HostShell((str(agent),), dict(os.environ))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    return here, there


class Clock:
    """Seconds that move by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def copies(
    far: HostShell, folders: tuple[Path, Path], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveCopies]:
    monkeypatch.setattr(live_copies, "_PAUSE_S", 0.1)
    made = LiveCopies(folders[0], ["far"], far, clock)
    yield made
    made.close()


def _look(copies: LiveCopies, clock: Clock, seconds: float = 2.0) -> None:
    clock.now_s += seconds
    copies.look()


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _pids(folder: Path) -> list[int]:
    return [int(line) for line in _text(folder / "pids").split()]


def test_recordings_are_copied_only_while_somebody_watches(
    copies: LiveCopies, clock: Clock, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    here, there = folders
    (there / "rank-1.jsonl").write_text("one\n")
    (here / "rank-0.jsonl").write_text("own\n")
    _look(copies, clock)
    assert _pids(tmp_path) == []
    watched_mark(here).write_text("1")
    _look(copies, clock)
    _until(lambda: _text(here / "rank-1.jsonl") == "one\n")
    assert watched_mark(there).exists()
    with (there / "rank-1.jsonl").open("a") as file:
        file.write("two\n")
    _until(lambda: _text(here / "rank-1.jsonl") == "one\ntwo\n")
    (pid,) = _pids(tmp_path)
    _look(copies, clock, 31)
    # The watcher has gone, and the remote shell with it.
    assert not Path(f"/proc/{pid}").exists()
    assert not watched_mark(there).exists()
    assert (here / "rank-0.jsonl").read_text() == "own\n"
    assert copies.problems == {}
    watched_mark(here).write_text("again")
    os.utime(watched_mark(here), (1, 1))
    with (there / "rank-1.jsonl").open("a") as file:
        file.write("three\n")
    _look(copies, clock)
    _until(lambda: _text(here / "rank-1.jsonl") == "one\ntwo\nthree\n")


def test_requests_to_ranks_travel_there_and_their_answers_back(
    copies: LiveCopies, clock: Clock, folders: tuple[Path, Path]
) -> None:
    here, there = folders
    (there / "rank-1.jsonl").write_text("one\n")
    watched_mark(here).touch()
    asked = [Request(4, samples=True, first_step=120)]
    write_requests(request_file(here, 1), asked)
    request_file(here, 2).write_text("{torn")
    _look(copies, clock)
    _until(request_file(there, 1).exists)
    assert read_requests(request_file(there, 1)) == asked
    asked.append(Request(5, samples=False))
    write_requests(request_file(here, 1), asked)
    _until(lambda: read_requests(request_file(there, 1)) == asked)
    for name in ("event-4-rank-1.stack", "event-4-rank-1.pt.trace.json.gz"):
        (there / name).write_text("answer\n")
        copied = here / name
        _until(copied.exists)
        assert copied.read_text() == "answer\n"
    assert not _requests(request_file(there, 2))


def _requests(path: Path) -> list[Request]:
    return read_requests(path) if path.exists() else []


def test_a_lost_connection_is_made_again_and_loses_nothing(
    copies: LiveCopies, clock: Clock, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    here, there = folders
    lines = [f"{number}\n" for number in range(100)]
    (there / "rank-1.jsonl").write_text("".join(lines[:50]))
    watched_mark(here).touch()
    _look(copies, clock)
    _until(lambda: _text(here / "rank-1.jsonl") == "".join(lines[:50]))
    (tmp_path / "cut").touch()
    os.kill(_pids(tmp_path)[0], signal.SIGKILL)
    with (there / "rank-1.jsonl").open("a") as file:
        file.write("".join(lines[50:]))
    time.sleep(0.5)
    (tmp_path / "cut").unlink()
    _until(lambda: _text(here / "rank-1.jsonl") == "".join(lines))
    copies.close()
    assert copies.problems == {"far": "No route to host"}


def test_another_file_under_a_name_is_copied_anew(
    copies: LiveCopies, clock: Clock, folders: tuple[Path, Path]
) -> None:
    here, there = folders
    (there / "rank-1.jsonl").write_text("one\ntwo\n")
    watched_mark(here).touch()
    _look(copies, clock)
    _until(lambda: _text(here / "rank-1.jsonl") == "one\ntwo\n")
    before = (here / "rank-1.jsonl").stat().st_ino
    (there / "rank-1.jsonl").write_text("three\nfour\nfive\n")
    _until(lambda: _text(here / "rank-1.jsonl") == "three\nfour\nfive\n")
    assert (here / "rank-1.jsonl").stat().st_ino != before


def test_what_does_not_give_the_token_is_not_taken(
    clock: Clock, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    here, _ = folders
    piece = tmp_path / "piece"
    piece.write_bytes(b"0" * 32 + b"\n" + Piece("rank-1.jsonl", 0, b"forged\n").packed())
    copies = LiveCopies(here, ["far"], HostShell(("/bin/cat", str(piece), "#"), {}), clock)
    watched_mark(here).touch()
    _look(copies, clock)
    time.sleep(0.5)
    copies.close()
    assert not (here / "rank-1.jsonl").exists()
    assert "far" in copies.problems


def test_without_other_hosts_nothing_is_started(far: HostShell, tmp_path: Path) -> None:
    copies = LiveCopies(tmp_path, [], far)
    watched_mark(tmp_path).touch()
    copies.look()
    assert not (tmp_path / "pids").exists()


def test_files_of_others_and_pieces_out_of_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rank-0.jsonl").write_text("of this host\n")
    files = CopiedFolder(tmp_path)
    for piece in (
        Piece("rank-0.jsonl", 0, b"other\n"),
        Piece("rank-0.jsonl", 13, b"more\n"),
        Piece("rank-1.jsonl", 5, b"late\n"),
    ):
        with pytest.raises(UnreadableInputError, match="does not continue"):
            files.write(piece)
    files.write(Piece("rank-1.jsonl", 0, b"one\n"))
    files.write(Piece("rank-1.jsonl", 4, b"two\n"))
    with pytest.raises(UnreadableInputError, match="does not continue"):
        files.write(Piece("rank-1.jsonl", 4, b"two\n"))
    assert (tmp_path / "rank-1.jsonl").read_text() == "one\ntwo\n"
    assert (tmp_path / "rank-0.jsonl").read_text() == "of this host\n"


def test_a_link_in_place_of_a_copy_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    files = CopiedFolder(tmp_path)
    files.write(Piece("rank-1.jsonl", 0, b"one\n"))
    (tmp_path / "rank-1.jsonl").unlink()
    (tmp_path / "rank-1.jsonl").symlink_to("target")
    with pytest.raises(OSError, match="link"):
        files.write(Piece("rank-1.jsonl", 4, b"two\n"))
    assert (tmp_path / "target").read_text() == ""


def test_a_host_cannot_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_copies, "MAX_BYTES", 10)
    files = CopiedFolder(tmp_path)
    files.write(Piece("rank-1.jsonl", 0, b"12345678"))
    with pytest.raises(UnreadableInputError, match="more than"):
        files.write(Piece("rank-1.jsonl", 8, b"901"))
