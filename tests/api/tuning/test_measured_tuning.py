"""What a tuning keeps when it is ended early, without launches."""

import dataclasses
import os
import signal
from types import SimpleNamespace

import pytest

from hvdprof.analyze.tune.finals import Raced
from hvdprof.api.tuning import measured_tuning
from hvdprof.api.tuning.candidates import Choice
from hvdprof.api.tuning.tuning_folder import RaceBudget
from hvdprof.errors import InterruptedRunError, StorageError
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.plan.time_budget import LaunchLength, TimeBudget, TimePlan
from hvdprof.launch.plan.tune_options import TuneOptions
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.results.tuning import Candidate, Estimate
from tests.builders import finished_tuning
from tests.builders.finished_analysis import analysis

FULL = "The disk is full."
CYCLE = Candidate(name="HOROVOD_CYCLE_TIME=1", environment={"HOROVOD_CYCLE_TIME": "1"})


def without_nan(value):
    """A record as plain values: since Python 3.13 dataclasses with NaN differ from each other."""
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(one) for one in value]
    return None if value != value else value


def assert_same(found):
    expected = dataclasses.asdict(finished_tuning.tuning())
    assert without_nan(dataclasses.asdict(found)) == without_nan(expected)


class Scripted(measured_tuning.TuningMeasurement):
    """A tuning whose present setting is measured and whose race has ended."""

    def __init__(self, folder, failure=None, signals=()):
        self.folder, self._failure, self._signals = folder, failure, list(signals)
        vars(self).update(present=SimpleNamespace(folder=folder / "present"))
        self._options = self._tools = self._shown = None
        self._margin = 0.02
        self._race_budget = RaceBudget(TimeBudget())
        self.num_results = 0

    def _signal(self, when):
        if when in self._signals:
            self._signals.remove(when)
            os.kill(os.getpid(), signal.SIGINT)

    def _measured_present(self):
        self.present.folder.mkdir()
        self._signal("present")

    def _raced(self, choice):
        return Raced(margin=0.02), self._failure

    def _result(self, *_):
        self._signal("result")
        self.num_results += 1
        return finished_tuning.tuning()


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    """One candidate for any job."""
    monkeypatch.setattr(measured_tuning, "job_of", lambda *_: None)
    monkeypatch.setattr(measured_tuning, "choose", lambda *_: Choice((CYCLE,), (), ()))


def fail_to_write(monkeypatch):
    def refuse(*_):
        raise StorageError(FULL)

    monkeypatch.setattr(measured_tuning, "write_tuning", refuse)


def test_a_result_that_was_written_is_named_where_the_tuning_ended_early(tmp_path):
    failure = InterruptedRunError("Ended by SIGINT.")
    _, ended = Scripted(tmp_path, failure).measure()
    assert ended is failure
    assert ended.hint == f"The result so far: hvdprof tune {tmp_path}"
    assert_same(measured_tuning.load_tuning(tmp_path))


def test_no_file_is_named_where_none_could_be_written(tmp_path, monkeypatch):
    fail_to_write(monkeypatch)
    failure = StorageError(FULL, hint="Free some space.")
    found, ended = Scripted(tmp_path, failure).measure()
    assert_same(found)
    assert ended is failure
    assert ended.hint == "Free some space."


def test_a_full_disk_at_the_end_is_a_failure_with_the_result(tmp_path, monkeypatch):
    fail_to_write(monkeypatch)
    found, ended = Scripted(tmp_path).measure()
    assert_same(found)
    assert isinstance(ended, StorageError)


def test_a_signal_while_the_result_is_written_does_not_lose_it(tmp_path):
    measurement = Scripted(tmp_path, signals=["result"])
    _, ended = measurement.measure()
    assert isinstance(ended, InterruptedRunError)
    assert_same(measured_tuning.load_tuning(tmp_path))


def test_a_signal_before_anything_is_tried_names_the_run_of_the_present_setting(tmp_path):
    with pytest.raises(InterruptedRunError) as raised:
        Scripted(tmp_path, signals=["present"]).measure()
    assert raised.value.hint == f"No setting was tried. The present one: {tmp_path / 'present'}"


def test_where_the_present_setting_was_not_measured_no_run_of_it_is_named(tmp_path, monkeypatch):
    measurement = Scripted(tmp_path)

    def refuse(*_):
        raise StorageError("Every user may write there.", hint="Make a folder of your own.")

    monkeypatch.setattr(Scripted, "_measured_present", refuse)
    with pytest.raises(StorageError) as raised:
        measurement.measure()
    assert raised.value.hint == "Make a folder of your own."


def test_a_signal_during_the_predictions_is_a_message(tmp_path, monkeypatch):
    def choose(*_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(measured_tuning, "choose", choose)
    with pytest.raises(InterruptedRunError) as raised:
        Scripted(tmp_path).measure()
    assert raised.value.hint.startswith("No setting was tried.")


BUSY = Note(NoteCode.OTHER_LOAD, "Other processes kept cores busy during 1 of 2 passes.")
SMALL = Candidate(name="B=1", environment={"B": "1"}, predicted=Estimate(0.1, 0.0, 0.2))
LARGE = Candidate(name="A=1", environment={"A": "1"}, predicted=Estimate(0.4, 0.3, 0.5))


class OnBudget(measured_tuning.TuningMeasurement):
    """A tuning of launches of 20 s with 100 steps, without a race."""

    def __init__(self, folder, budget_s):
        command = ("python", "train.py", "--token", "abcdefgh12345678")
        present = SimpleNamespace(folder=folder / "present", shown_command=list(command))
        vars(self).update(folder=folder, num_ranks=2, present=present)
        self._options = TuneOptions(command=command, np="2", budget=f"{budget_s}s", repeats=4)
        self._present_options = RunOptions(command=command, np="2")
        self._tools = self._shown = None
        self._margin = 0.05
        self._budget = TimeBudget(budget_s)
        self._race_budget = RaceBudget(self._budget)
        self.raced = ()

    def _measured_present(self):
        self._race_budget.launch = LaunchLength(4.0, 0.16, 100)
        return analysis(warning_notes=(BUSY,))

    def _raced(self, choice):
        self.raced = choice.candidates
        return super()._raced(choice) if not choice.candidates else (Raced(margin=0.05), None)


@pytest.fixture
def two_candidates(monkeypatch):
    monkeypatch.setattr(
        measured_tuning, "choose", lambda *_: Choice((LARGE, SMALL), (), ("fp16: no.",))
    )


@pytest.mark.usefixtures("two_candidates")
def test_a_budget_without_a_race_ends_with_predicted_gains_and_what_resumes(tmp_path):
    found, failure = OnBudget(tmp_path, 60.0).measure()

    assert failure is None
    # 10 launches of 30 steps.
    assert found.sentence == (
        "Nothing was tried: the shortest race takes about 1 min 28 s, more than the budget leaves. "
        "Largest predicted gain: A=1, 40 ± 10 % of the step time."
    )
    assert [(one.candidate.name, one.reason) for one in found.trials] == [
        ("A=1", "the budget is too short"),
        ("B=1", "the budget is too short"),
    ]
    assert found.next_line == (
        "hvdprof tune --margin 5% --np 2 --repeats 4 --budget 110s "
        f"--resume {tmp_path} -- python train.py --token '***'"
    )
    assert found.caveat == BUSY.text
    assert without_nan(dataclasses.asdict(measured_tuning.load_tuning(tmp_path))) == without_nan(
        dataclasses.asdict(found)
    )


@pytest.mark.usefixtures("two_candidates")
def test_the_budget_that_is_named_begins_a_race_with_fewer_steps(tmp_path):
    measurement = OnBudget(tmp_path, 110.0)

    found, _ = measurement.measure()

    assert measurement.raced == (LARGE,)
    assert found.next_line == ""
    bounded = measurement._bounded()
    assert bounded.num_steps == int((11.0 - 4.0) / 0.16)
    assert found.caveat.startswith("The budget shortened the launches of the race to 43 of 100 ")
    plan = measurement._plan(Choice(measurement.raced, (), ()))
    assert (plan.fewer_steps, plan.launch_s) == (43, pytest.approx(10.88))
    assert plan.shortest_s == pytest.approx(4 * 10.88)


@pytest.mark.usefixtures("two_candidates")
def test_a_long_budget_keeps_the_steps_of_the_job(tmp_path):
    measurement = OnBudget(tmp_path, 1000.0)
    measurement.measure()

    assert measurement.raced == (LARGE, SMALL)
    assert measurement._bounded().num_steps is None


def test_the_estimate_holds_the_present_setting_and_the_shortest_race(tmp_path, monkeypatch):
    measurement = OnBudget(tmp_path, 60.0)
    vars(measurement.present).update(manifest=SimpleNamespace(passes=[1, 2]))
    for planned_s, least_s in ((40.0, 240.0), (None, 0.0)):
        plan = TimePlan(planned_s=planned_s, repeat_s=None, basis="")
        monkeypatch.setattr(measured_tuning, "time_plan", lambda *_, found=plan: found)
        assert measurement.estimate() == (plan, least_s)
