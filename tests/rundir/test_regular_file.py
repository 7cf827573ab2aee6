import os
import socket
from pathlib import Path

import pytest

from hvdprof.rundir.regular_file import (
    NotRegularFileError,
    checked_inside,
    continues,
    open_regular,
    read_regular,
)


def test_a_file_and_a_link_to_it_are_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("é", encoding="utf-8")
    (tmp_path / "link").symlink_to("a")
    assert read_regular(tmp_path / "link") == "é"
    with open_regular(tmp_path / "a") as file:
        assert file.read() == "é".encode()


def test_whatever_else_a_path_can_be_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    (tmp_path / "zero").symlink_to("/dev/zero")
    cases = {"pipe": "a named pipe", "socket": "a socket", "zero": "a device", ".": "a folder"}
    for name, kind in cases.items():
        with pytest.raises(NotRegularFileError) as caught:
            open_regular(tmp_path / name)
        assert caught.value.strerror == f"it is {kind}, not a file"
    listening.close()


def test_what_is_not_there_is_said_as_such(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "a")


def test_a_link_may_not_lead_out_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret").touch()
    (run / "own").touch()
    (run / "inside").symlink_to("own")
    (run / "outside").symlink_to("../secret")
    (run / "circle").symlink_to("circle")
    (tmp_path / "name of the run").symlink_to("run")
    assert checked_inside(run, run / "inside") == run / "inside"
    linked = tmp_path / "name of the run"
    assert checked_inside(linked, linked / "own") == linked / "own"
    for name in ("outside", "circle"):
        with pytest.raises(OSError, match="link"):
            checked_inside(run, run / name)


def test_a_file_continues_where_it_holds_what_was_read_last(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    with open_regular(tmp_path / "a") as file:
        assert continues(file, 5, b"234")
        assert file.read() == b"56789"
        assert continues(file, 0, b"")
        assert not continues(file, 5, b"345")
        assert not continues(file, 13, b"789")
