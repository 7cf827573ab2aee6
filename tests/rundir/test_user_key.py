import os
from pathlib import Path

import pytest

from hvdprof.rundir.user_key import is_sealed, key_file, seal


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_a_seal_holds_for_its_content_alone() -> None:
    stated = seal(b"python train.py")
    assert is_sealed(b"python train.py", stated)
    assert not is_sealed(b"python evil.py", stated)
    assert not is_sealed(b"python train.py", "")
    assert not is_sealed(b"python train.py", "\xe9")
    assert key_file().stat().st_mode & 0o777 == 0o600


def test_another_user_has_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stated = seal(b"x")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not is_sealed(b"x", stated)
    assert seal(b"x") != stated


def test_a_key_that_others_may_read_or_have_put_there_is_none() -> None:
    stated = seal(b"x")
    key_file().chmod(0o644)
    assert not is_sealed(b"x", stated)
    key_file().chmod(0o600)
    assert is_sealed(b"x", stated)
    copy = key_file().with_name("copy")
    key_file().rename(copy)
    key_file().symlink_to(copy)
    assert not is_sealed(b"x", stated)


def test_an_empty_key_seals_nothing() -> None:
    seal(b"x")
    key_file().write_bytes(b"")
    assert seal(b"x") == ""
    assert not is_sealed(b"x", "")


def test_without_a_place_nothing_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert seal(b"x") == ""
    assert not is_sealed(b"x", "")


def test_the_place_of_the_key(tmp_path: Path) -> None:
    assert key_file() == tmp_path / "hvdprof" / "key"
    assert key_file({"XDG_STATE_HOME": "relative"}) == Path(
        os.path.expanduser("~/.local/state/hvdprof/key")  # noqa: PTH111 - the other way to ask
    )
