import os
import threading
from collections.abc import Iterator

import pytest

from hvdprof.collect.auto.step_counts import StepTurns
from hvdprof.collect.turn_gate import TURNS
from hvdprof.launch.run.turn_socket import TurnSocket, TurnStanding


@pytest.fixture
def listening() -> Iterator[TurnSocket]:
    turns = TurnSocket(1)
    yield turns
    turns.close()


class _Script(threading.Thread):
    """Makes updates until its turns are over; a step is recorded for each."""

    def __init__(self, address: str, num_warmup: int) -> None:
        super().__init__()
        self._turns = StepTurns(num_warmup, {TURNS: address})
        self.num_updates = 0
        self.start()

    def run(self) -> None:
        goes_on = True
        while goes_on:
            self.num_updates += 1
            goes_on = self._turns.update_ended(self.num_updates)


def _wait(turns: TurnSocket) -> TurnStanding:
    for _ in range(50):
        turns.wait(0.2)
        if (standing := turns.standing()) is not None:
            return standing
    raise AssertionError("the script does not wait")


def test_it_waits_after_warm_up_and_after_each_turn(listening: TurnSocket) -> None:
    script = _Script(listening.address, num_warmup=5)
    first = _wait(listening)
    assert (first.segment, first.step) == ("main", 5)
    assert first.step_s > 0
    for num_steps, boundary in ((7, 13), (2, 16)):
        # One step at the begin of a turn is on top of those that count.
        listening.give_turn(num_steps)
        assert _wait(listening).step == boundary
    listening.give_turn(0)
    script.join(60)
    assert script.num_updates == 16


def test_without_warm_up_it_waits_after_the_first_update(listening: TurnSocket) -> None:
    script = _Script(listening.address, num_warmup=0)
    assert _wait(listening).step == 1
    listening.give_turn(0)
    script.join(60)
    assert not script.is_alive()


def test_a_launch_that_has_the_host_to_itself_never_waits() -> None:
    turns = StepTurns(0, {})
    assert not turns.is_active
    assert all(turns.update_ended(number) for number in range(1000))


def test_the_training_runs_on_where_the_launching_side_is_out_of_reach(
    capsys: pytest.CaptureFixture[str],
) -> None:
    turns = StepTurns(2, {TURNS: "hvdprof-turns-gone"})
    assert all(turns.update_ended(number) for number in range(10))
    assert not turns.is_active
    assert capsys.readouterr().err.count("no turns") == 1


def test_the_training_runs_on_where_the_launching_side_refuses_the_rank(
    listening: TurnSocket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As a process of another user, or of another PID namespace.
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    turns = StepTurns(0, {TURNS: listening.address})
    refusing = threading.Thread(target=listening.wait, args=(5.0,))
    refusing.start()
    assert all(turns.update_ended(number) for number in range(10))
    refusing.join()
    assert not turns.is_active
    assert capsys.readouterr().err.count("no further turns") == 1


def test_the_training_ends_where_the_launching_side_dies_between_turns() -> None:
    turns = TurnSocket(1)
    script = _Script(turns.address, num_warmup=1)
    _wait(turns)
    turns.give_turn(2)
    assert _wait(turns).step == 4
    turns.close()
    script.join(60)
    assert script.num_updates == 4
