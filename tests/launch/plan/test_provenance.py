import subprocess

import pytest

from hvdprof.launch.plan.provenance import git_state, python_program


@pytest.fixture
def tree(tmp_path):
    for words in (
        ("init", "--quiet"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "begin"),
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, timeout=60)
    return tmp_path


def test_a_working_tree_has_a_commit_and_may_be_dirty(tree):
    assert git_state(tree)["dirty"] is False
    assert len(git_state(tree)["commit"]) == 40
    (tree / "new").touch()
    assert git_state(tree)["dirty"] is True


def test_a_tree_that_git_cannot_read_is_not_called_clean(tree):
    (tree / ".git" / "index").write_bytes(b"no index")

    assert git_state(tree)["dirty"] is None


def test_outside_of_a_working_tree(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))

    assert git_state(tmp_path) is None


def test_a_helper_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('the working directory was imported')")
    monkeypatch.chdir(tmp_path)
    program = python_program("hvdprof.launch.remote.pass_files", "get", str(tmp_path))

    done = subprocess.run(program, capture_output=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, b"")
