import json
import os
import sys
from pathlib import Path

import pytest

from hvdprof.api.measurement import Measurement, measure_network
from hvdprof.collect.net_probe import MARK
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.run.bench_run import planned_manifest
from hvdprof.launch.run.script_launcher import Tools
from hvdprof.launch.run.sweep import Sweep
from hvdprof.rundir.attached import NetRecording
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from tests.builders.bench_settings import FOUR_CORES, bench_settings
from tests.builders.run_directory import write_run
from tests.builders.survey import make_build, make_mpi

RECORDS = (
    {"what": "hosts", "hosts": ["h1", "h2"]},
    {"what": "tcp", "from": 1, "to": 0, "size_bytes": 8, "times_ns": [5]},
    {"what": "end"},
)


class _Launcher:
    """Prints a text for the ranks, and counts how often it was asked to start them."""

    def __init__(self, text: str, code: int = 0) -> None:
        self.started = 0
        self._script = f"import sys; print({text!r}); sys.exit({code})"

    def command(self, job: Job) -> list[str]:
        self.started += 1
        return [sys.executable, "-c", self._script]


def _sweep(folder: Path, launcher: _Launcher, settings: Settings) -> Sweep:
    return Sweep(
        settings=settings,
        manifest=Manifest.read(write_run(folder, [])),
        paths=RunPaths(folder),
        launcher=launcher,
        mpi=None,
        progress=None,
        environment=dict(os.environ),
    )


TOOLS = Tools(make_build(), make_mpi())


def _planned() -> Manifest:
    manifest = planned_manifest(bench_settings(), FOUR_CORES, TOOLS)
    manifest.name = "bench"
    return manifest


def test_planning_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planned = Measurement(_planned(), TOOLS, None)
    launches = planned.launches()
    assert [launch.id for launch in launches][:2] == [
        "01-np1-torch-r1",
        "02-np1-throughput-r1",
    ]
    assert "runs/20" in " ".join(launches[0].command)
    assert list(tmp_path.iterdir()) == []
    folder = planned.make_folder()
    assert folder == planned.make_folder() == planned.folder
    assert Manifest.read(folder).passes == planned.manifest.passes


TWO_HOSTS = bench_settings(hosts="h1:1,h2:1", sizes=(1, 2), controller="gloo")


def test_the_network_is_measured_once(tmp_path: Path) -> None:
    launcher = _Launcher("\n".join(MARK + json.dumps(record) for record in RECORDS))
    sweep = _sweep(tmp_path, launcher, TWO_HOSTS)
    measure_network(sweep)
    measure_network(sweep)
    recording = NetRecording.read(tmp_path)
    assert recording is not None
    assert recording.records == [RECORDS[1]]
    assert launcher.started == 1
    assert sweep.manifest.warnings == []


def test_a_network_that_cannot_be_measured_is_a_warning(tmp_path: Path) -> None:
    sweep = _sweep(tmp_path, _Launcher("no such interface", 7), TWO_HOSTS)
    measure_network(sweep)
    assert NetRecording.read(tmp_path) is None
    assert sweep.manifest.warnings == [
        "The measurement of the network ended with exit code 7. no such interface"
    ]


def test_one_host_has_no_network(tmp_path: Path) -> None:
    launcher = _Launcher("")
    measure_network(_sweep(tmp_path / "none", launcher, bench_settings()))
    one = bench_settings(hosts="h1:4,h2:4", sizes=(1, 4))
    measure_network(_sweep(tmp_path / "one", launcher, one))
    assert launcher.started == 0
