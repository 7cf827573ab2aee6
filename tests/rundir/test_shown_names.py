import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.plain_text import printable
from hvdprof.rundir.shown_names import show_as, show_as_they_are, shown_name


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
