"""What a tuning keeps when it is ended early, without launches."""

import dataclasses
import os
import signal
from types import SimpleNamespace

import pytest

from hvdprof.analyze.tune.raced import Raced
from hvdprof.api import tuning
from hvdprof.api.tuning_candidates import Choice
from hvdprof.errors import InterruptedRunError, StorageError
from hvdprof.model.tuning import Candidate
from tests.builders import finished_tuning

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


class Scripted(tuning.TuningMeasurement):
    """A tuning whose present setting is measured and whose race has ended."""

    def __init__(self, folder, failure=None, signals=()):
        self.folder, self._failure, self._signals = folder, failure, list(signals)
        vars(self).update(present=SimpleNamespace(folder=folder / "present"))
        self._options = self._tools = self._shown = None
        self._margin = 0.02
        self.num_results = 0

    def _signal(self, when):
        if when in self._signals:
            self._signals.remove(when)
            os.kill(os.getpid(), signal.SIGINT)

    def _measured_present(self):
        self._signal("present")

    def _that_fit(self, choice):
        return choice

    def _raced(self, choice):
        return Raced(margin=0.02), self._failure

    def _result(self, *_):
        self._signal("result")
        self.num_results += 1
        return finished_tuning.tuning()


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    """One candidate for any job."""
    monkeypatch.setattr(tuning, "job_of", lambda *_: None)
    monkeypatch.setattr(tuning, "choose", lambda *_: Choice((CYCLE,), (), ()))


def fail_to_write(monkeypatch):
    def refuse(*_):
        raise StorageError(FULL)

    monkeypatch.setattr(tuning, "write_tuning", refuse)


def test_a_result_that_was_written_is_named_where_the_tuning_ended_early(tmp_path):
    failure = InterruptedRunError("Ended by SIGINT.")
    _, ended = Scripted(tmp_path, failure).measure()
    assert ended is failure
    assert ended.hint == f"The result so far: hvdprof tune {tmp_path}"
    assert_same(tuning.load_tuning(tmp_path))


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
    assert_same(tuning.load_tuning(tmp_path))


def test_a_signal_before_anything_is_tried_names_the_run_of_the_present_setting(tmp_path):
    with pytest.raises(InterruptedRunError) as raised:
        Scripted(tmp_path, signals=["present"]).measure()
    assert raised.value.hint == f"No setting was tried. The present one: {tmp_path / 'present'}"


def test_a_signal_during_the_predictions_is_a_message(tmp_path, monkeypatch):
    def choose(*_):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(tuning, "choose", choose)
    with pytest.raises(InterruptedRunError) as raised:
        Scripted(tmp_path).measure()
    assert raised.value.hint.startswith("No setting was tried.")
