import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.plain_text import printable
from hvdprof.rundir.regular_file import (
    NotRegularFileError,
    check_plain,
    check_relative,
    checked_inside,
    continues,
    is_host_name,
    open_regular,
    read_regular,
    show_as,
    show_as_they_are,
    shown_name,
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


@pytest.mark.parametrize(
    "name", ["01-np2-throughput-r1", "emulate:resnet50:128@0.2-fp16", "über uns", ".hidden", "-x"]
)
def test_names_of_files_are_plain(name: str) -> None:
    check_plain(name, "pass id")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "/etc", "a/b", "a\0b", "a\nb", "a\x1b[2J", "é" * 200, "\udc80"]
)
def test_what_leads_elsewhere_or_acts_on_a_terminal_is_not(name: str) -> None:
    with pytest.raises(ValueError, match=r"pass id .* is no plain name") as caught:
        check_plain(name, "pass id")
    assert str(caught.value).isascii() and str(caught.value).isprintable()


def test_relative_paths_stay_below_their_folder() -> None:
    check_relative("passes/attached/nccl/rank-0.log", "file")
    for path in ("", "/etc/passwd", "passes/../../x", "a//../b"):
        with pytest.raises(ValueError, match="file"):
            check_relative(path, "file")


@pytest.mark.parametrize("name", ["h1", "node-7.cluster", "10.0.0.1", "fe80::1", "me@gpu_1"])
def test_hosts(name: str) -> None:
    assert is_host_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "-oProxyCommand=x", "me@-x", "-x@h", "a b", "a;b", "$(x)", "a\nb", "a/b", "h" * 300],
)
def test_what_ssh_or_a_shell_would_take_as_more_than_a_host(name: str) -> None:
    assert not is_host_name(name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain name.log", "plain name.log"),
        ("größe.json".encode(), "größe.json"),
        (b"caf\xe9.json", r"caf\xe9.json"),
        (b"\x1b[31mred", r"\x1b[31mred"),
        (b"two\nlines", r"two\x0alines"),
        ("\u202egnp.exe".encode(), r"\u202egnp.exe"),
    ],
)
def test_a_name_is_printable(name: bytes, shown: str) -> None:
    assert shown_name(Path(os.fsdecode(name))) == shown


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_every_name_is_printable_text(name: bytes) -> None:
    path = Path(os.fsdecode(name))
    shown = shown_name(path)
    shown.encode("utf-8")
    assert printable(shown) == shown


def test_what_lies_in_a_workspace_has_the_name_of_its_archive() -> None:
    show_as(Path("/tmp/x/1"), "job.tar.gz")
    assert shown_name(Path("/tmp/x/1/rank.0/stdout")) == "job.tar.gz/rank.0/stdout"
    assert shown_name(Path("/tmp/x/10/a")) == "/tmp/x/10/a"
    show_as_they_are(Path("/tmp/x"))
    assert shown_name(Path("/tmp/x/1/rank.0/stdout")) == "/tmp/x/1/rank.0/stdout"
