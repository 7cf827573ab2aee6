import os

import pytest

from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.trash import TRASH, move_beside
from hvdprof.errors import UsageError
from tests.builders.run_directory import PassSpec, write_run


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "runs" / "one", [PassSpec()])


def test_the_trash_is_for_its_owner_alone(run):
    target = move_beside(run)
    assert (target / "manifest.json").exists()
    assert target.parent.stat().st_mode & 0o777 == 0o700


def test_a_link_to_a_run_elsewhere_moves_nothing(run, tmp_path):
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / "linked").symlink_to(run)
    runs = RunStore([], watched=[watched])

    with pytest.raises(UsageError, match="is a link to"):
        runs.move_to_trash(runs.ids[0])
    assert (run / "manifest.json").exists()
    assert not (run.parent / TRASH).exists()


def test_a_trash_folder_that_is_a_link_is_not_followed(run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run.parent / TRASH).symlink_to(elsewhere)

    with pytest.raises(UsageError, match="no folder of your own"):
        move_beside(run)
    assert (run / "manifest.json").exists()
    assert list(elsewhere.iterdir()) == []


def test_a_run_of_another_user_stays(run, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: run.stat().st_uid + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        move_beside(run)
    assert (run / "manifest.json").exists()
