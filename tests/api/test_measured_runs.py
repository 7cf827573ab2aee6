from pathlib import Path

import pytest

from hvdprof.api import measured_runs, measurement
from hvdprof.api.measured_runs import options_of, plan_measurement, plan_resume
from hvdprof.api.measurement import Measurement
from hvdprof.api.options import BenchOptions, RunOptions
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.launch.plan.options import record_of
from hvdprof.launch.run.bench_run import Tools, planned_manifest
from hvdprof.launch.run.sweep import Sweep
from hvdprof.rundir.manifest import Manifest
from tests.builders.bench_settings import FOUR_CORES, bench_options, bench_settings
from tests.builders.run_directory import write_run
from tests.builders.survey import make_build, make_mpi

TOOLS = Tools(make_build(), make_mpi())


def _planned(options: BenchOptions) -> Manifest:
    manifest = planned_manifest(bench_settings(), FOUR_CORES, TOOLS)
    manifest.name = "bench"
    manifest.options = record_of(options)
    return manifest


@pytest.mark.parametrize(
    ("options", "launches"),
    [
        (
            BenchOptions(np=2, models="mnist", repeats=1),
            ["01-np2-throughput-r1", "02-np2-trace-r1"],
        ),
        (RunOptions(np=2, command=("bash",), trace=False), ["01-np2-throughput-r1"]),
    ],
)
def test_options_are_planned_by_their_class(
    options: BenchOptions | RunOptions, launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured_runs, "find_tools", lambda: TOOLS)
    planned = plan_measurement(options)
    assert [launch.id for launch in planned.launches()] == launches
    assert options_of(planned.manifest) == options


def test_options_are_checked_before_horovod_is_located(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Tools:
        raise AssertionError("Horovod was looked for")

    monkeypatch.setattr(measured_runs, "find_tools", never)
    with pytest.raises(UsageError, match="'lenet' is not known"):
        plan_measurement(BenchOptions(models=["lenet"]))
    with pytest.raises(UsageError, match="are required"):
        plan_measurement(RunOptions(np=2))


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
    monkeypatch.setattr(measured_runs, "find_tools", lambda: TOOLS)
    manifest = _planned(bench_options(net=recorded))
    folder = Measurement(manifest, TOOLS, None, output=tmp_path / "r").make_folder()
    asked: list[Sweep] = []
    monkeypatch.setattr(measurement, "measure_network", asked.append)
    plan_resume(folder, net=given).ready_hosts()
    assert bool(asked) == net
