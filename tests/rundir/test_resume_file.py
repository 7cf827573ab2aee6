import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.plan.settings import ScriptSettings, read_settings
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import MANIFEST_SCHEMA_VERSION, Manifest
from hvdprof.rundir.resume_file import (
    is_masked,
    masked_settings,
    read_resume_file,
    separated,
    write_resume_file,
)
from tests.builders.bench_settings import bench_settings, recorded
from tests.builders.recorded_runs import RECORDED, unpacked

SECRET = "Zq7wX2kLpR9vT4"
NEWER = {"ddp-alone-pauses", "ddp-code-lines"}
"""Runs that were recorded with a later schema."""

COPIED = {
    "scaling": "strong",
    "num_steps": 10,
    "attribution": True,
    "fusion_threshold_mb": 4.0,
    "cycle_time_ms": None,
    "cache_capacity": 0,
    "data_dir": "/data",
    "seed": 7,
    "timeout_s": 30.0,
    "stall_warn_s": 5.0,
    "stall_kill_s": None,
    "light": False,
}
OF_SCRIPT = {"num_timeline_steps": 20, "sets_threads": True, "trace": False}
ELASTIC = {
    "min_np": 1,
    "max_np": 4,
    "discovery_script": "./hosts.sh",
    "slots": 2,
    "network_interface": "lo",
    "wait_s": 30,
    "reset_limit": None,
}


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


def _of_bench() -> dict[str, Any]:
    """Settings of schema 1 of reference models."""
    decided = bench_settings(num_threads=3).record()
    return decided | COPIED | {"threads_by_cores": False, "variables": {"A": "1"}}


def _of_script(**changes: object) -> dict[str, Any]:
    """Settings of schema 1 of a script."""
    script = {"command": ["python", "train.py"], "variables": {"A": "1"}, **OF_SCRIPT, **changes}
    return _of_bench() | {"variables": {}, "script": script}


def _old_manifest(settings: dict[str, Any], options: dict[str, Any], version: int = 1) -> Manifest:
    """The manifest as a file of that schema version is read."""
    manifest = Manifest.of_files("run")
    manifest.schema_version, manifest.settings, manifest.options = version, settings, options
    return manifest


@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name in RECORDED if name not in NEWER])
def test_a_run_of_schema_1_has_settings_of_this_version(name: str, tmp_path: Path) -> None:
    folder = unpacked(name, tmp_path)
    old = json.loads(RunPaths(folder).manifest.read_text())
    manifest = Manifest.read(folder)
    assert (old["schema_version"], manifest.schema_version) == (1, MANIFEST_SCHEMA_VERSION)
    assert manifest.options == old["options"]
    settings = read_settings(manifest)
    assert settings.record().keys() == manifest.settings.keys()
    assert settings.options.stall_warn_s == old["settings"]["stall_warn_s"]
    manifest.write(RunPaths(folder))
    assert read_settings(Manifest.read(folder)) == settings


def test_copies_become_options_where_a_run_recorded_none(tmp_path: Path) -> None:
    _old_manifest(_of_bench(), {}).write(RunPaths(tmp_path))
    found = read_settings(Manifest.read(tmp_path))
    options = replace(bench_settings(**COPIED, env=("A=1",)).options, num_threads=3)
    assert found == replace(bench_settings(num_threads=3), options=options)


def test_options_that_were_given_stay_and_a_folder_is_the_absolute_one() -> None:
    options = record_of(bench_settings(data_dir="data", np="1,2").options)
    settings, found = separated(_of_bench() | {"threads_by_cores": True}, options)
    assert settings.keys() == bench_settings().record().keys()
    assert found == options | {"data_dir": "/data"}


def test_an_elastic_script_has_its_limits_as_options(tmp_path: Path) -> None:
    _old_manifest(_of_script(elastic=ELASTIC), {}).write(RunPaths(tmp_path))
    found = read_settings(Manifest.read(tmp_path))
    assert found.script == ScriptSettings(command=("python", "train.py"), network_interface="lo")
    elastic = found.elastic
    assert elastic is not None
    assert (elastic.host_discovery_script, elastic.least_np, elastic.max_np) == ("./hosts.sh", 1, 4)
    assert (elastic.slots, elastic.elastic_timeout_s, elastic.network_interface) == (2, 30, None)
    assert (elastic.env, elastic.num_threads, elastic.trace) == (("A=1",), 3, False)
    assert (elastic.num_timeline_steps, elastic.stall_warn_s) == (20, 5.0)


def test_a_run_of_this_schema_stays_as_it_is(tmp_path: Path) -> None:
    manifest = recorded(bench_settings(seed=7))
    manifest.write(RunPaths(tmp_path))
    read = Manifest.read(tmp_path)
    assert json.dumps([read.settings, read.options]) == json.dumps(
        [manifest.settings, manifest.options]
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (_of_script(elastic=[1]), "settings.elastic is no object"),
        (_of_script(variables="A=1"), "settings.variables is no object"),
    ],
)
def test_damaged_settings_are_reported(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    _old_manifest(settings, {}).write(RunPaths(tmp_path))
    with pytest.raises(UnreadableInputError, match=said):
        Manifest.read(tmp_path)
