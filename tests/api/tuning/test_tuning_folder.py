"""The present setting of a tuning, from synthetic run directories."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.api import load_tuning
from hvdprof.api.tuning.candidates import Choice
from hvdprof.api.tuning.tuning_folder import (
    RaceBudget,
    check_folder,
    check_resumed,
    launch_length,
    present_analysis,
    with_ranks_of_torchrun,
    write_tuning,
)
from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from hvdprof.launch.plan.time_budget import LaunchLength, TimeBudget
from hvdprof.launch.plan.tune_options import TuneOptions
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.layout import TuningPaths
from tests.builders.analysis import analysis_of, sweep
from tests.builders.bench_settings import bench_settings
from tests.builders.finished_tuning import tuning
from tests.builders.run_directory import write_run
from tests.launch.run.test_repeats import manifest_of


def test_a_result_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    write_tuning(tuning(), tmp_path)
    found = load_tuning(tmp_path)
    open_ended = found.trials[1].gain
    assert open_ended is not None and math.isnan(open_ended.low)
    assert found.sentence == tuning().sentence
    assert found.checks == tuning().checks
    assert found.trials[0] == tuning().trials[0]
    assert found.trials[2:] == tuning().trials[2:]
    assert json.loads((tmp_path / "tuning.json").read_text())["schema_version"] == 1


@pytest.mark.parametrize(("of_runs", "mode"), [(0o700, 0o600), (0o750, 0o640)])
def test_who_may_read_its_runs_may_read_the_result(tmp_path: Path, of_runs: int, mode: int) -> None:
    (tmp_path / "present").mkdir()
    (tmp_path / "present").chmod(of_runs)
    write_tuning(tuning(), tmp_path)
    assert (tmp_path / "tuning.json").stat().st_mode & 0o777 == mode


def test_a_folder_without_a_result_says_where_its_runs_are(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="holds no result of a tuning") as error:
        load_tuning(tmp_path)
    assert "present, race and check" in error.value.hint


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1}']
)
def test_a_damaged_result_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tuning.json").write_text(text)
    with pytest.raises(UnreadableInputError, match="is damaged"):
        load_tuning(tmp_path)


def test_a_file_or_a_used_folder_cannot_hold_a_new_tuning(tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    check_folder(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    for path, message in ((file, "cannot hold a tuning"), (tmp_path, "is not empty")):
        with pytest.raises(StorageError, match=message) as error:
            check_folder(path)
        assert "--runs" in error.value.hint


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
