"""The race and the check of a tuning, with launches that are scripted instead of started."""

import math
import os
import signal
from pathlib import Path
from typing import ClassVar

import pytest

from hvdprof.analyze.tune import tuning_result
from hvdprof.analyze.tune.finals import BEST, LaunchCount
from hvdprof.analyze.tune.racing import PRESENT
from hvdprof.api.tuning import race as tuning_race
from hvdprof.api.tuning.candidates import Choice
from hvdprof.api.tuning.race import RaceOfSettings, RacePlan
from hvdprof.api.tuning.settings_by_turns import failed_repeats, launch_count
from hvdprof.errors import (
    InterruptedRunError,
    StorageError,
    SweepIncompleteError,
    UsageError,
)
from hvdprof.launch.plan.time_budget import TimeBudget
from hvdprof.launch.processes.interruption import interruptible
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind
from hvdprof.rundir.layout import TuningPaths
from hvdprof.rundir.manifest import Status
from tests.builders.finished_analysis import manifest, pass_record, segment

FAST = Candidate(name="A=1", environment={"A": "1"})
OTHER = Candidate(name="B=1", environment={"B": "1"})
CRASH = "rank 0 exited with code 1"
JITTER = (0.0, 0.004, -0.004, 0.002, -0.002, 0.001)


class FakeTurns:
    """Launches of scripted length; what happens in which folder and round is a class variable."""

    gains: ClassVar[dict[str, float]] = {}
    failing: ClassVar[dict[tuple[str, str], int]] = {}
    """By folder and setting, the round from which it fails."""
    raising: ClassVar[dict[tuple[str, int], BaseException]] = {}
    """By folder and round, what ends it after that round; round 0 is the construction."""
    refusing: ClassVar[dict[tuple[str, str], str]] = {}
    reading: ClassVar[list[str]] = []
    """What a signal interrupts: the reading in these folders, once each."""

    def __init__(self, job, settings, folder, *, most_rounds):
        self.folder, self.most = folder.name, most_rounds
        self.names = [PRESENT, *settings]
        self.times = {}
        self.refused = {
            name: self.refusing[folder.name, name]
            for name in settings
            if (folder.name, name) in self.refusing
        }
        self.failures = dict.fromkeys(self.names, 0)
        self.num = dict.fromkeys(self.names, 0)
        self.ran = []
        if (error := self.raising.get((folder.name, 0))) is not None:
            raise error

    def run(self, after_round):
        going = {name for name in self.names if name not in self.refused}
        for number in range(1, self.most + 1):
            for name in sorted(going):
                self.launch(name, number)
            if (error := self.raising.get((self.folder, number))) is not None:
                raise error
            going &= set(after_round(number))
            if PRESENT not in going:
                return
        return

    def launch(self, name, number):
        self.ran.append((number, name))
        self.num[name] += 1
        if number >= self.failing.get((self.folder, name), math.inf):
            self.failures[name] += 1
            return
        gain = self.gains.get(name, 0.0)
        place = self.names.index(name)
        noise = JITTER[(number + place) % len(JITTER)]
        self.times.setdefault(name, {})[number] = math.log1p(-gain) + noise

    def read(self, names=None):
        if self.folder in self.reading:
            self.reading.remove(self.folder)
            os.kill(os.getpid(), signal.SIGINT)

    launch_s = 1.0

    def reason(self, name):
        return self.refused.get(name) or (CRASH if self.failures[name] else "")

    def is_given_up(self, name):
        return name in self.refused or self.failures[name] >= 2

    def launches(self, name):
        return LaunchCount(self.num[name], self.failures[name])

    def loss_change(self, name):
        return None


@pytest.fixture
def turns(monkeypatch):
    """The scripted launches, with nothing scripted yet."""

    class Scripted(FakeTurns):
        gains: ClassVar[dict] = {FAST.name: 0.4, BEST: 0.4}
        failing: ClassVar[dict] = {}
        raising: ClassVar[dict] = {}
        refusing: ClassVar[dict] = {}
        reading: ClassVar[list] = []
        made: ClassVar[list] = []

        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            self.made.append(self)

    monkeypatch.setattr(tuning_race, "SettingsByTurns", Scripted)
    return Scripted


def run(*candidates):
    """The race, and its verdict and failure."""
    race = RaceOfSettings(
        job=None,
        paths=TuningPaths(Path("tuning")),
        plan=RacePlan(len(candidates), 1.0, 6, 10),
        margin=0.02,
        budget=TimeBudget(),
        shown=None,
    )
    with interruptible():
        raced, failure = race.run(Choice(candidates, (), ()))
    status = "done" if failure is None else "failed"
    return raced, failure, tuning_result.sentence(raced, "A=1", status)


def outcomes(raced):
    return {one.candidate.name: one.outcome for one in tuning_result.trials(raced)}


def test_a_gain_is_confirmed_by_the_check(turns):
    raced, failure, text = run(FAST, OTHER)
    assert failure is None
    assert raced.named == (FAST,)
    assert text.startswith("Set A=1: step time -4")
    assert list(tuning_result.caveats(raced)) == []


def test_a_present_setting_that_fails_in_the_race_is_the_cause(turns):
    turns.failing["race", PRESENT] = 1
    raced, failure, text = run(FAST)
    assert isinstance(failure, SweepIncompleteError)
    assert CRASH in failure.message
    assert text == f"Nothing is known: the present setting failed: {CRASH}."
    assert raced.finals is None


def test_a_present_setting_that_fails_in_the_check_is_a_failure(turns):
    turns.failing["check", PRESENT] = 1
    raced, failure, text = run(FAST)
    assert isinstance(failure, SweepIncompleteError)
    assert text == f"Undecided: the present setting failed: {CRASH}."
    assert turns.made[-1].num == {PRESENT: 2, BEST: 2}
    assert raced.named == ()


def test_where_all_that_is_checked_fails_the_present_setting_does_not_run_alone(turns):
    turns.failing["check", BEST] = 1
    raced, failure, _ = run(FAST)
    assert failure is None
    assert turns.made[-1].num == {PRESENT: 2, BEST: 2}
    assert raced.named == ()
    assert outcomes(raced) == {FAST.name: "failed"}


def test_a_winner_that_starts_to_fail_in_the_check_is_not_confirmed(turns):
    turns.failing["check", BEST] = 4
    turns.gains = {FAST.name: 0.05, BEST: 0.012}
    raced, _, _ = run(FAST)
    assert turns.made[-1].failures[BEST] >= 2
    assert raced.named == ()
    assert outcomes(raced) == {FAST.name: "failed"}


def test_a_refused_entry_of_the_check_is_no_traceback(turns):
    turns.refusing["check", BEST] = "this machine cannot run it"
    raced, failure, _ = run(FAST)
    assert failure is None
    assert turns.made[-1].ran == []
    (trial,) = tuning_result.trials(raced)
    assert (trial.outcome, trial.reason) == ("failed", "this machine cannot run it")


def test_a_refused_setting_is_no_part_of_the_race(turns):
    turns.refusing["race", OTHER.name] = "no MPI"
    raced, failure, _ = run(FAST, OTHER)
    assert failure is None
    assert outcomes(raced) == {FAST.name: "confirmed", OTHER.name: "failed"}


@pytest.mark.parametrize(
    "error",
    [
        InterruptedRunError("Ended by SIGINT."),
        StorageError("The disk is full."),
        UsageError("train.py is gone."),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("when", [("race", 2), ("check", 0), ("check", 2)], ids=str)
def test_what_was_measured_stays_whatever_ends_the_race(turns, when, error):
    turns.raising[when] = error
    raced, failure, text = run(FAST)
    assert failure is error
    assert tuning_result.trials(raced)[0].gain.value == pytest.approx(0.4, abs=0.01)
    # Two repeats of the check are a gain beyond noise.
    is_known = when == ("check", 2)
    assert text.startswith("Set A=1:" if is_known else "Undecided: the tuning ended before its")
    assert (raced.finals is not None) == is_known


def test_an_end_in_the_first_round_leaves_no_result(turns):
    turns.raising["race", 1] = error = InterruptedRunError("Ended by SIGINT.")
    turns.failing["race", FAST.name] = turns.failing["race", PRESENT] = 1
    raced, failure, text = run(FAST)
    assert failure is error
    assert text == "Nothing is known: no round of the race ended."
    assert outcomes(raced) == {FAST.name: "undecided"}


def test_a_present_setting_that_cannot_be_prepared_ends_with_a_result(turns):
    turns.raising["race", 0] = error = UsageError("train.py is gone.")
    raced, failure, text = run(FAST)
    assert failure is error
    assert text == "Nothing is known: no round of the race ended."
    assert outcomes(raced) == {FAST.name: "undecided"}


@pytest.mark.parametrize("folder", ["race", "check"])
def test_a_second_signal_while_the_result_is_read_loses_nothing(turns, folder):
    turns.raising[folder, 2] = error = InterruptedRunError("Ended by SIGINT.")
    turns.reading.append(folder)
    raced, failure, _ = run(FAST)
    assert failure is error
    assert turns.reading == []
    assert tuning_result.trials(raced)[0].num_rounds >= 2


def launched(*ends):
    """A run with a launch per status and failure."""
    passes = []
    for repeat, (status, failure) in enumerate(ends, start=1):
        record = pass_record(f"p{repeat}", [segment("s")], mode="throughput")
        (one,) = record.segments
        one.status, one.failure = status, failure
        record.repeat = repeat
        passes.append(record)
    return manifest(passes=passes)


def test_a_launch_that_crashes_after_enough_steps_has_failed():
    crash = Failure(reason=CRASH)
    found = launched((Status.DONE, None), (Status.PARTIAL, crash), (Status.FAILED, crash))
    assert launch_count(found) == LaunchCount(3, 2)
    assert failed_repeats(found) == {2, 3}


def test_a_launch_that_the_user_ended_has_not_failed():
    found = launched(
        (Status.DONE, None), (Status.PARTIAL, Failure(reason="?", kind=FailureKind.INTERRUPTED))
    )
    assert launch_count(found) == LaunchCount(1, 0)
    assert failed_repeats(found) == frozenset()
