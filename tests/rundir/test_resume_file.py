import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.resume_file import (
    is_masked,
    masked_settings,
    read_resume_file,
    write_resume_file,
)

SECRET = "Zq7wX2kLpR9vT4"


def _settings() -> dict[str, Any]:
    return {
        "sizes": [1, 2],
        "hosts": None,
        "script": {
            "command": ("python", "train.py", "--api-key", SECRET, "--lr", "0.1"),
            "is_function": False,
        },
    }


OPTIONS = {
    "np": [1, 2],
    "command": ["python", "train.py", "--api-key", SECRET],
    "env": [f"WANDB_API_KEY={SECRET}"],
    "host_discovery_script": f"./hosts.sh --token={SECRET}",
}


def _manifest() -> Manifest:
    manifest = Manifest.of_files("x")
    manifest.settings, manifest.options = _settings(), dict(OPTIONS)
    return manifest


def test_secrets_stand_in_one_file_that_its_owner_alone_reads(tmp_path: Path) -> None:
    manifest = _manifest()
    manifest.write(RunPaths(tmp_path))
    assert SECRET not in RunPaths(tmp_path).manifest.read_text()
    assert SECRET in RunPaths(tmp_path).resume.read_text()
    assert RunPaths(tmp_path).resume.stat().st_mode & 0o777 == 0o600
    # The run that is in progress still has them.
    assert manifest.settings == _settings()
    read = Manifest.read(tmp_path)
    assert "***" in read.settings["script"]["command"]
    assert "0.1" in read.settings["script"]["command"]
    assert is_masked(read.settings, {}) and is_masked({}, read.options)
    assert not is_masked(_settings(), OPTIONS)


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o700, 0o600), (0o750, 0o640)])
def test_who_may_read_the_folder_may_read_the_manifest(
    tmp_path: Path, folder_mode: int, file_mode: int
) -> None:
    tmp_path.chmod(folder_mode)
    _manifest().write(RunPaths(tmp_path))
    assert RunPaths(tmp_path).manifest.stat().st_mode & 0o777 == file_mode
    assert RunPaths(tmp_path).resume.stat().st_mode & 0o777 == 0o600


def test_what_was_given_comes_back_as_own_until_it_is_changed(tmp_path: Path) -> None:
    write_resume_file(RunPaths(tmp_path), _settings(), OPTIONS)
    found = read_resume_file(tmp_path)
    assert found is not None and found.is_own
    assert found.settings["script"]["command"][3] == SECRET
    path = RunPaths(tmp_path).resume
    content = json.loads(path.read_text())
    content["settings"]["script"]["command"][1] = "evil.py"
    path.write_text(json.dumps(content))
    changed = read_resume_file(tmp_path)
    assert changed is not None and not changed.is_own


def test_the_same_is_not_written_again(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_resume_file(paths, _settings(), OPTIONS)
    before = paths.resume.stat().st_ino
    write_resume_file(paths, _settings(), OPTIONS)
    assert paths.resume.stat().st_ino == before
    write_resume_file(paths, _settings() | {"hosts": "a:2"}, OPTIONS)
    assert paths.resume.stat().st_ino != before


def test_runs_of_functions_and_of_files_have_none(tmp_path: Path) -> None:
    Manifest.of_files("x").write(RunPaths(tmp_path))
    manifest = _manifest()
    manifest.settings["script"]["is_function"] = True
    manifest.write(RunPaths(tmp_path))
    assert read_resume_file(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema_version": 1, "settings": 3}'])
def test_a_damaged_file_is_reported(tmp_path: Path, text: str) -> None:
    RunPaths(tmp_path).resume.write_text(text)
    with pytest.raises(UnreadableInputError, match=r"resume\.json"):
        read_resume_file(tmp_path)


def test_a_link_and_a_newer_version_are_refused(tmp_path: Path) -> None:
    path = RunPaths(tmp_path).resume
    path.symlink_to("/etc/hostname")
    with pytest.raises(UnreadableInputError, match="leads out of the run directory"):
        read_resume_file(tmp_path)
    path.unlink()
    path.write_text('{"schema_version": 3, "settings": {}, "options": {}, "seal": ""}')
    with pytest.raises(UnreadableInputError, match="schema version 3"):
        read_resume_file(tmp_path)


def test_nothing_is_masked_where_there_is_nothing() -> None:
    assert masked_settings({"attached": []}) == {"attached": []}
    assert masked_settings({"np": [1], "command": None}) == {"np": [1], "command": None}
    assert masked_settings(OPTIONS)["env"] == ["WANDB_API_KEY=***"]
