import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hvdprof.errors import StorageError, UnreadableInputError
from hvdprof.launch.remote import pass_files as host_files
from hvdprof.launch.remote.pass_files import main, pack, unpack, written_folders
from hvdprof.rundir.layout import TRACE, PassPaths, answer_file, request_file, watched_mark


def _pass(folder: Path) -> Path:
    paths = PassPaths(folder / "passes" / "p")
    for path, text in (
        (paths.recorder_file(1), '{"kind":"header"}\n' * 500),
        (paths.timeline("main"), "[]"),
        (paths.watch_file(1), "{}"),
        (paths.flight_folder / "rank-1.json", "{}"),
        (paths.plan, "{}"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return paths.folder


def _stream(folder: Path) -> bytes:
    out = io.BytesIO()
    names = [one.name for one in written_folders(PassPaths(folder))]
    pack(folder, sorted(host_files._files(folder, names)), out)
    return out.getvalue()


def _files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_ranks_wrote_comes_back_and_nothing_else(tmp_path: Path) -> None:
    there, here = _pass(tmp_path / "there"), tmp_path / "here"
    assert unpack(io.BytesIO(_stream(there)), here, written_folders(PassPaths(here))) == 4
    wanted = _files(there)
    del wanted["plan.json"]
    assert _files(here) == wanted


def test_answers_come_back_as_they_are_and_no_requests(tmp_path: Path) -> None:
    there, here = PassPaths(tmp_path / "there").recorder_folder, tmp_path / "here"
    there.mkdir(parents=True)
    trace = answer_file(there, 0, 1, TRACE)
    trace.write_bytes(b"compressed already")
    for path in (request_file(there, 1), watched_mark(there)):
        path.write_text("{}")
    assert unpack(io.BytesIO(_stream(there.parent)), here) == 1
    assert (here / "recorder" / trace.name).read_bytes() == b"compressed already"


def test_what_a_login_shell_prints_is_skipped(tmp_path: Path) -> None:
    stream = b"Welcome to node7\n\nhvdprof-files soon\n" + _stream(_pass(tmp_path / "there"))
    assert unpack(io.BytesIO(stream), tmp_path / "here") == 4


@pytest.mark.parametrize("cut", [1, 100])
def test_half_a_stream_is_none(tmp_path: Path, cut: int) -> None:
    stream = _stream(_pass(tmp_path / "there"))
    with pytest.raises(UnreadableInputError, match="did not come back whole"):
        unpack(io.BytesIO(stream[:-cut]), tmp_path / "here")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("text", [b"", b"bash: python: command not found\n"])
def test_no_stream(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(UnreadableInputError, match="no files came back"):
        unpack(io.BytesIO(text), tmp_path)


@pytest.mark.parametrize("name", ["../x", "/x", "plan.json", "other/x", "recorder/../../x"])
def test_a_host_cannot_write_elsewhere(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = _pass(tmp_path / "there"), tmp_path / "here" / "p"
    real = tarfile.TarInfo
    monkeypatch.setattr(tarfile, "TarInfo", lambda _: real(name))
    stream = _stream(there)
    monkeypatch.undo()
    with pytest.raises(UnreadableInputError, match="no file that ranks write"):
        unpack(io.BytesIO(stream), here, written_folders(PassPaths(here)))
    assert not list(tmp_path.glob("here/**/x"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(
    tmp_path: Path, kind: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = _pass(tmp_path / "there"), tmp_path / "here" / "p"

    def link(archive: tarfile.TarFile, path: Path, name: str) -> None:
        member = tarfile.TarInfo(f"recorder/{path.name}")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)

    monkeypatch.setattr(host_files, "_add", link)
    stream = _stream(there)
    with pytest.raises(UnreadableInputError, match="is no regular file"):
        unpack(io.BytesIO(stream), here, written_folders(PassPaths(here)))
    assert not here.exists()


def test_a_stream_that_swells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _stream(_pass(tmp_path / "there"))
    monkeypatch.setattr(host_files, "MAX_BYTES", 100)
    with pytest.raises(UnreadableInputError, match="unpack to more than 100 B"):
        unpack(io.BytesIO(stream), tmp_path / "here")


def test_links_of_a_host_are_not_fetched(tmp_path: Path) -> None:
    folder = _pass(tmp_path)
    (folder / "recorder" / "rank-9.jsonl").symlink_to("/etc/passwd")
    assert "rank-9.jsonl" not in {path.name for path in host_files._files(folder, ["recorder"])}


def test_too_much_is_left_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _pass(tmp_path)
    monkeypatch.setattr(host_files, "MAX_BYTES", 1000)
    with pytest.raises(StorageError, match=r"holds 9\.\d\d kB, more than is fetched \(1\.00 kB\)"):
        _stream(folder)


def test_there_and_back_by_the_commands(tmp_path: Path) -> None:
    there, here = _pass(tmp_path / "there"), tmp_path / "here"
    out = io.BytesIO()
    pack(there, [there / "plan.json"], out)
    command = [sys.executable, "-m", "hvdprof.launch.remote.pass_files"]
    put = subprocess.run([*command, "put", str(here)], input=out.getvalue(), capture_output=True)
    assert (put.returncode, put.stderr) == (0, b"")
    assert (here / "plan.json").read_text() == "{}"
    assert all(folder.is_dir() for folder in written_folders(PassPaths(here)))
    get = subprocess.run([*command, "get", str(there), "recorder"], capture_output=True)
    assert unpack(io.BytesIO(get.stdout), here) == 1


def test_a_folder_that_is_not_there_holds_no_files(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["get", str(tmp_path / "none"), "recorder"]) == 0
    assert unpack(io.BytesIO(capfdbinary.readouterr().out), tmp_path) == 0
