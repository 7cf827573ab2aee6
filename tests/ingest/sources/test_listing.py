import os
from pathlib import Path

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.sources import listing
from hvdprof.ingest.sources.listing import listing_of, missing
from hvdprof.model.notes import texts


def test_files_of_all_depths_without_hidden_ones(tmp_path: Path) -> None:
    for name in (
        "b",
        "a",
        "deep/er/c",
        ".hidden",
        ".git/config",
        "deep/__pycache__/x.pyc",
        "deep/watched",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").touch()
    (tmp_path / "link to a file").symlink_to("a")
    (tmp_path / "link to a folder").symlink_to("/usr")
    found = listing_of(tmp_path)
    names = [path.relative_to(tmp_path).as_posix() for path in found.files]
    assert names == ["a", "b", "deep/er/c", "link to a file"]
    assert (found.runs, found.notes) == ([tmp_path / "run"], [])


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "gone").symlink_to("nowhere")
    found = listing_of(tmp_path)
    assert found.files == []
    assert sorted(texts(found.notes)) == [
        f"{tmp_path}/gone is a link that leads nowhere; it is not read.",
        f"{tmp_path}/pipe is a named pipe; it is not read.",
        f"{tmp_path}/zero is a device; it is not read.",
    ]


def test_a_link_that_leads_nowhere_is_not_similar_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "old").symlink_to("removed")
    for name in ("loop", "old"):
        error = missing(tmp_path / name)
        assert str(error) == f"{tmp_path / name} is a link that leads nowhere."
        assert not error.hint


def test_a_folder_with_far_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_FILES", 3)
    for number in range(3):
        (tmp_path / str(number)).touch()
    assert len(listing_of(tmp_path).files) == 3
    (tmp_path / "one more").touch()
    with pytest.raises(UnreadableInputError, match="more than 3 files"):
        listing_of(tmp_path)


def test_what_lies_too_deep_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["d"] * 65)
    folder.mkdir(parents=True)
    (folder / "too deep").touch()
    (folder.parent / "deep").touch()
    found = listing_of(tmp_path)
    assert found.files == [folder.parent / "deep"]
    assert list(texts(found.notes)) == [f"{folder} lies more than 64 folders deep; it is not read."]
