import subprocess
from pathlib import Path

import pytest

from tests.selection.changed_files import NoBaseError, changed_files, default_base


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *own, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, name: str) -> str:
    (folder / name).write_text(name)
    git(folder, "add", name)
    git(folder, "commit", "--quiet", "-m", name)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def test_committed_uncommitted_and_untracked_files_are_changed(repository: Path) -> None:
    (repository / ".gitignore").write_text("ignored\n")
    git(repository, "add", ".gitignore")
    first = commit(repository, "old name.py")
    commit(repository, "committed.py")
    git(repository, "mv", "old name.py", "renamed.py")
    (repository / "committed.py").write_text("edited")
    (repository / "täglich.py").write_text("untracked")
    (repository / "ignored").write_text("")
    changed = ["committed.py", "old name.py", "renamed.py", "täglich.py"]
    assert changed_files(repository, first) == changed


def test_the_base_is_where_the_branch_left_main(repository: Path) -> None:
    first = commit(repository, "a")
    git(repository, "update-ref", "refs/remotes/origin/main", first)
    commit(repository, "b")
    commit(repository, "c")
    assert default_base(repository) == (first, "merge base with origin/main")


def test_the_base_is_the_last_commit_without_a_main(repository: Path) -> None:
    first = commit(repository, "a")
    commit(repository, "b")
    assert default_base(repository) == (first, "HEAD~1")


def test_without_a_commit_to_compare_with_the_base_must_be_stated(repository: Path) -> None:
    commit(repository, "a")
    with pytest.raises(NoBaseError, match="state BASE=COMMIT"):
        default_base(repository)
    with pytest.raises(NoBaseError, match="git cannot compare with absent"):
        changed_files(repository, "absent")
