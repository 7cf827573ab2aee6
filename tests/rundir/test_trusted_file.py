import os
from pathlib import Path

import pytest

from hvdprof.rundir.trusted_file import (
    UntrustedFileError,
    is_sealed,
    is_trusted,
    key_file,
    let_only_owner_write,
    open_trusted,
    seal,
    stranger_at,
    trusted_folder,
)


def test_a_file_of_this_user_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "a").chmod(0o644)
    with open_trusted(tmp_path / "a") as file:
        assert file.read() == b"1"


def test_what_others_may_write_to_is_refused_until_they_may_not(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    for mode in (0o664, 0o646):
        path.chmod(mode)
        with pytest.raises(UntrustedFileError, match="other users may write"):
            open_trusted(path)
        let_only_owner_write(path)
        assert path.stat().st_mode & 0o777 == 0o644
        assert is_trusted(path)


def test_links_pipes_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        assert not is_trusted(tmp_path / name)
    with pytest.raises(UntrustedFileError, match="link"):
        open_trusted(tmp_path / "link")


def test_a_folder_is_made_but_a_link_to_one_is_not_trusted(tmp_path: Path) -> None:
    assert trusted_folder(tmp_path / "deep" / "folder")
    assert trusted_folder(tmp_path / "deep" / "folder")
    (tmp_path / "link").symlink_to("deep")
    (tmp_path / "file").touch()
    for name in ("link", "file", "file/below"):
        assert not trusted_folder(tmp_path / name)


@pytest.mark.parametrize("mode", [0o777, 0o1777], ids=oct)
def test_a_folder_that_everyone_may_write_to_is_refused_with_its_files(
    tmp_path: Path, mode: int
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").touch(mode=0o644)
    folder.chmod(mode)

    with pytest.raises(UntrustedFileError, match="everyone may write to its folder"):
        open_trusted(folder / "a")
    assert not trusted_folder(folder)

    folder.chmod(0o775)
    open_trusted(folder / "a").close()
    assert trusted_folder(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_owners(tmp_path: Path) -> None:
    path, source = tmp_path / "a", tmp_path / "source"
    path.touch(mode=0o644)
    source.touch()
    (tmp_path / "folder").mkdir()
    for one in (path, tmp_path / "folder"):
        os.chown(one, 12345, -1)
    with pytest.raises(UntrustedFileError, match="another user"):
        open_trusted(path)
    assert not trusted_folder(tmp_path / "folder", beside=source)
    os.chown(source, 12345, -1)
    open_trusted(path, beside=source).close()
    assert trusted_folder(tmp_path / "folder", beside=source)


@pytest.mark.parametrize(
    ("mode", "is_refused"), [(0o700, False), (0o775, False), (0o777, True), (0o1777, False)]
)
def test_who_may_write_to_a_folder_could_lie_in_wait_there(
    tmp_path: Path, mode: int, is_refused: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    (folder / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("folder")
    for path in (folder / "new", folder / "own", folder / "a" / "b", tmp_path / "link" / "new"):
        assert bool(stranger_at(path)) == is_refused, path
    assert stranger_at(folder / "own" / "new") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_folder_of_another_user_is_refused_with_what_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "own").mkdir(parents=True)
    (tmp_path / "link").symlink_to("folder/own")
    os.chown(folder, 12345, 12345)
    for path in (folder, folder / "new", folder / "own"):
        assert stranger_at(path) == f"{folder} belongs to another user"
    assert stranger_at(folder / "own" / "new") == ""
    os.chown(folder, 0, 0)
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    assert stranger_at(tmp_path / "link") == f"{tmp_path}/link is a link of another user"


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
