import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.plain_text import printable
from hvdprof.rundir.file_names import (
    check_plain,
    check_relative,
    is_host_name,
    show_as,
    show_as_they_are,
    shown_name,
)


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
