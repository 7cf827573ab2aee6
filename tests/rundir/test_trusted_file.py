import os
from pathlib import Path

import pytest

from hvdprof.rundir.trusted_file import (
    UntrustedFileError,
    is_trusted,
    let_only_owner_write,
    open_trusted,
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
