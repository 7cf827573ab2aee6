import json
import os
import sys
from pathlib import Path

import pytest

from hvdprof.api import measurement
from hvdprof.api.measurement import Measurement, measure_network, options_of, plan_resume
from hvdprof.api.options import BenchOptions
from hvdprof.collect.network.net_probe import MARK
from hvdprof.errors import UnreadableInputError
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.plan.settings import BenchSettings
from hvdprof.launch.run.bench_run import Tools, planned_manifest
from hvdprof.launch.run.sweep import Sweep
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.net_recording import NetRecording
from tests.builders.bench_settings import FOUR_CORES, bench_options, bench_settings
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


def _sweep(folder: Path, launcher: _Launcher, settings: BenchSettings) -> Sweep:
    return Sweep(
        settings=settings,
        manifest=Manifest.read(write_run(folder, [])),
        paths=RunPaths(folder),
        launcher=launcher,
        mpi=None,
        observer=None,
        environment=dict(os.environ),
    )


TOOLS = Tools(make_build(), make_mpi())


def _planned(options: BenchOptions | None = None) -> Manifest:
    manifest = planned_manifest(bench_settings(), FOUR_CORES, TOOLS)
    manifest.name = "bench"
    manifest.options = {} if options is None else record_of(options)
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


def test_a_run_is_measured_again_with_the_options_of_its_manifest(tmp_path: Path) -> None:
    given = bench_options(np=[1, 2], models=("mnist",), net=False, data_dir=tmp_path)
    folder = Measurement(_planned(given), TOOLS, None, output=tmp_path / "r").make_folder()
    assert options_of(Manifest.read(folder)) == given


def test_a_run_of_an_earlier_version_has_no_options(tmp_path: Path) -> None:
    assert options_of(Manifest.read(write_run(tmp_path, []))) is None


def test_options_of_another_version_are_refused() -> None:
    manifest = _planned(bench_options())
    manifest.options["num_gpus_per_hour"] = 3
    with pytest.raises(UnreadableInputError, match="num_gpus_per_hour"):
        options_of(manifest)


@pytest.mark.parametrize(("recorded", "given", "net"), [(False, None, False), (False, True, True)])
def test_a_resumed_run_measures_the_network_as_it_began(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: bool,
    given: bool | None,
    net: bool,
) -> None:
    monkeypatch.setattr(measurement, "find_tools", lambda: TOOLS)
    manifest = _planned(bench_options(net=recorded))
    folder = Measurement(manifest, TOOLS, None, output=tmp_path / "r").make_folder()
    asked: list[Sweep] = []
    monkeypatch.setattr(measurement, "measure_network", asked.append)
    plan_resume(folder, net=given).ready_hosts()
    assert bool(asked) == net


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
