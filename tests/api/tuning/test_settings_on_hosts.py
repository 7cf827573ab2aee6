"""Settings that run by turns on several hosts, without launches."""

from types import SimpleNamespace

import pytest

from hvdprof.analyze.tune.racing import PRESENT
from hvdprof.api.tuning import settings_by_turns
from hvdprof.api.tuning.settings_by_turns import JobToTune, SettingsByTurns
from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.run.sweep_state import SilentProgress
from hvdprof.model.results.tuning import Candidate

CYCLE = Candidate(name="HOROVOD_CYCLE_TIME=1", environment={"HOROVOD_CYCLE_TIME": "1"})


class FakeRun:
    """A measurement on hosts of which one may refuse a setting."""

    def __init__(self, options, refused, calls):
        self.folder = options.folder
        self.manifest = SimpleNamespace(passes=[], paired_by="")
        self._refused, self._calls = refused, calls

    def make_folder(self):
        self._calls.append(("folder", self.folder.name))

    def ready_hosts(self):
        self._calls.append(("hosts", self.folder.name))
        if self._refused in self.folder.name:
            raise EnvironmentNotReadyError("node2 has no Horovod.")

    def started_sweep(self):
        return self.folder.name


def turns_of(monkeypatch, tmp_path, refused):
    calls = []
    monkeypatch.setattr(
        settings_by_turns,
        "plan_measurement",
        lambda options, **_: FakeRun(options, refused, calls),
    )
    monkeypatch.setattr(
        settings_by_turns, "run_race", lambda sweeps, _: calls.append(("race", sweeps))
    )
    job = JobToTune(RunOptions(command=("python", "train.py")), 2, None, SilentProgress())
    return SettingsByTurns(job, {CYCLE.name: CYCLE}, tmp_path, most_rounds=3), calls


def test_hosts_are_readied_for_each_setting_before_its_launches(monkeypatch, tmp_path):
    turns, calls = turns_of(monkeypatch, tmp_path, "none")
    turns.run(lambda _: ())
    kinds = [kind for kind, _ in calls]
    assert kinds == ["folder", "folder", "hosts", "hosts", "race"]


def test_a_setting_that_a_host_cannot_run_is_refused_and_the_others_run(monkeypatch, tmp_path):
    turns, calls = turns_of(monkeypatch, tmp_path, "HOROVOD_CYCLE_TIME")
    turns.run(lambda _: ())
    assert turns.refused == {CYCLE.name: "node2 has no Horovod."}
    assert turns.is_given_up(CYCLE.name)
    assert turns.reason(CYCLE.name) == "node2 has no Horovod."
    assert turns.loss_change(CYCLE.name) is None
    assert calls[-1] == ("race", [PRESENT])


def test_a_host_that_cannot_run_the_present_setting_ends_the_tuning(monkeypatch, tmp_path):
    turns, _ = turns_of(monkeypatch, tmp_path, PRESENT)
    with pytest.raises(EnvironmentNotReadyError, match="node2"):
        turns.run(lambda _: ())
