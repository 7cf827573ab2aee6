"""The present setting of a tuning, from synthetic run directories."""

from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.api.tuning_candidates import Choice
from hvdprof.api.tuning_present import (
    RaceBudget,
    check_resumed,
    launch_length,
    present_analysis,
    with_ranks_of_torchrun,
)
from hvdprof.errors import UsageError
from hvdprof.launch.plan.time_budget import LaunchLength, TimeBudget
from hvdprof.launch.plan.tune_options import TuneOptions
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.layout import TuningPaths
from tests.builders.analysis import analysis_of, sweep
from tests.builders.bench_settings import bench_settings
from tests.builders.run_directory import write_run
from tests.launch.run.test_repeats import manifest_of

CHOICE = Choice(tuple(Candidate(name=name) for name in "abc"), (), ())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("left_s", "names", "fewer_steps"),
    [
        (400.0, "abc", None),
        (200.0, "abc", 77),
        (160.0, "abc", 54),
        (118.0, "ab", 38),
        (60.0, "", None),
    ],
)
def test_steps_are_fewer_before_settings_are(left_s: float, names: str, fewer_steps) -> None:
    fits = RaceBudget(TimeBudget(left_s, Clock()), LaunchLength(4.0, 0.1, 160))

    found = fits.that_fit(CHOICE)

    assert "".join(one.name for one in found.candidates) == names
    assert [trial.candidate.name for trial in found.untried] == list("abc"[len(names) :])
    assert fits.fewer_steps == fewer_steps
    assert (fits.too_long_s is None) == bool(names)


def test_without_a_budget_all_race() -> None:
    fits = RaceBudget(TimeBudget(), LaunchLength(4.0, 0.1, 160))

    assert fits.that_fit(CHOICE) is CHOICE
    assert (fits.fewer_steps, fits.too_long_s) == (None, None)


@pytest.mark.heavy
def test_a_launch_is_its_start_and_its_steps(tmp_path: Path) -> None:
    found = analysis_of(tmp_path, sweep({1: 10.0, 2: 20.0}, num_steps=40))
    for record in found.run.manifest.passes:
        record.duration_s = 5.0 if record.size == 2 else 99.0

    launch = launch_length(found, 2, 40)

    assert launch.step_s == pytest.approx(0.02, rel=0.02)
    assert launch.num_steps == 40
    assert launch.seconds(40) == pytest.approx(5.0)
    assert launch_length(found, 2, None).num_steps == pytest.approx(40, abs=5)
    assert launch_length(found, 4, 40).num_steps == 0


@pytest.mark.heavy
def test_what_has_raced_or_is_another_job_or_size_is_not_resumed(tmp_path: Path) -> None:
    paths = TuningPaths(tmp_path)
    same = manifest_of(bench_settings())
    with pytest.raises(UsageError, match="holds no present setting"):
        check_resumed(paths, same, 2)
    fields = {name: getattr(same, name) for name in ("hosts", "options", "settings")}
    write_run(paths.present, sweep({2: 20.0}), **fields)

    check_resumed(paths, same, 2)
    with pytest.raises(UsageError, match="no result on 4 ranks"):
        check_resumed(paths, same, 4)
    elsewhere = replace(same, hosts=[{"hostname": "node9"}])
    other_version = replace(same, settings={"num_threads": 1})
    for planned in (elsewhere, other_version):
        with pytest.raises(UsageError, match="tuned another job"):
            check_resumed(paths, planned, 2)
    paths.race.mkdir()
    with pytest.raises(UsageError, match="has raced"):
        check_resumed(paths, same, 2)


@pytest.mark.heavy
def test_a_present_setting_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "present", sweep({2: 20.0}))

    assert present_analysis(None, folder, 2).scaling["np"].tolist() == [2]


def test_the_ranks_of_torchrun_are_those_of_its_command() -> None:
    options = TuneOptions(command=("torchrun", "--nproc-per-node", "3", "train.py"))

    assert with_ranks_of_torchrun(options).np == 3
    assert with_ranks_of_torchrun(replace(options, np="2")).np == "2"
