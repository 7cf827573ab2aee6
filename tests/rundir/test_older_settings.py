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
from hvdprof.rundir.older_settings import separated
from tests.builders.bench_settings import bench_settings, recorded
from tests.builders.recorded_runs import RECORDED, unpacked

NEWER = {"ddp-alone-pauses"}
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


def _of_bench() -> dict[str, Any]:
    """Settings of schema 1 of reference models."""
    decided = bench_settings(num_threads=3).record()
    return decided | COPIED | {"threads_by_cores": False, "variables": {"A": "1"}}


def _of_script(**changes: object) -> dict[str, Any]:
    """Settings of schema 1 of a script."""
    script = {"command": ["python", "train.py"], "variables": {"A": "1"}, **OF_SCRIPT, **changes}
    return _of_bench() | {"variables": {}, "script": script}


def _manifest(settings: dict[str, Any], options: dict[str, Any], version: int = 1) -> Manifest:
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
    _manifest(_of_bench(), {}).write(RunPaths(tmp_path))
    found = read_settings(Manifest.read(tmp_path))
    options = replace(bench_settings(**COPIED, env=("A=1",)).options, num_threads=3)
    assert found == replace(bench_settings(num_threads=3), options=options)


def test_options_that_were_given_stay_and_a_folder_is_the_absolute_one() -> None:
    options = record_of(bench_settings(data_dir="data", np="1,2").options)
    settings, found = separated(_of_bench() | {"threads_by_cores": True}, options)
    assert settings.keys() == bench_settings().record().keys()
    assert found == options | {"data_dir": "/data"}


def test_an_elastic_script_has_its_limits_as_options(tmp_path: Path) -> None:
    _manifest(_of_script(elastic=ELASTIC), {}).write(RunPaths(tmp_path))
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
    _manifest(settings, {}).write(RunPaths(tmp_path))
    with pytest.raises(UnreadableInputError, match=said):
        Manifest.read(tmp_path)
