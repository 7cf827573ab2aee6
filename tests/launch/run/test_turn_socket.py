import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hvdprof.collect.turn_gate import TURNS, TurnGate, turn_gate
from hvdprof.launch.run.turn_socket import SegmentTurns, TurnSocket, TurnStanding
from tests.builders.training_job import segment

TIMED = replace(segment("s"), num_steps=None, max_seconds=3.0)


@pytest.fixture
def listening() -> Iterator[TurnSocket]:
    turns = TurnSocket(2)
    yield turns
    turns.close()


class _Rank(threading.Thread):
    def __init__(self, address: str, rank: int, step: int = 5) -> None:
        super().__init__()
        self.gate = TurnGate(address, rank)
        self._step, self._rank = step, rank
        self.answers: list[int] = []
        self.start()

    def run(self) -> None:
        while answer := self.gate.next_turn("mnist", self._step, 0.1 * (1 + self._rank)):
            self.answers.append(answer)
            self._step += answer

    def leave(self) -> None:
        """Wait for the end of the turns, and close the connection."""
        self.join(60)
        assert not self.is_alive()
        self.gate.close()


def _wait(turns: TurnSocket) -> TurnStanding:
    for _ in range(50):
        turns.wait(0.2)
        if (standing := turns.standing()) is not None:
            return standing
    raise AssertionError("the ranks do not stand at their gates")


def test_ranks_wait_until_they_get_a_number_of_steps(listening: TurnSocket) -> None:
    ranks = [_Rank(listening.address, rank) for rank in range(2)]
    assert _wait(listening) == TurnStanding("mnist", 5, 0.2)
    assert listening.process_ids()[0] == os.getpid()
    listening.give_turn(7)
    assert listening.standing() is None
    assert _wait(listening) == TurnStanding("mnist", 12, 0.2)
    listening.give_turn(0)
    for rank in ranks:
        rank.leave()
        assert rank.answers == [7]


def test_what_measures_a_rank_pauses_while_it_stands(
    listening: TurnSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Measured:
        def pause(self) -> None:
            seen.append("pause")

        def resume(self) -> None:
            seen.append("resume")

    monkeypatch.setattr(TurnGate, "pausing", [Measured()])
    ranks = [_Rank(listening.address, rank) for rank in range(2)]
    _wait(listening)
    assert seen == ["pause", "pause"]
    listening.give_turn(0)
    for rank in ranks:
        rank.leave()
    assert seen == ["pause", "pause", "resume", "resume"]


def test_a_launch_stands_only_when_all_ranks_do_at_the_same_step(listening: TurnSocket) -> None:
    ranks = [_Rank(listening.address, 0)]
    for _ in range(3):
        listening.wait(0.05)
    assert listening.standing() is None
    ranks.append(_Rank(listening.address, 1, step=6))
    for _ in range(5):
        listening.wait(0.05)
    assert listening.standing() is None
    listening.give_turn(0)
    for rank in ranks:
        rank.leave()


def test_ranks_end_their_segment_when_the_launching_side_is_gone() -> None:
    turns = TurnSocket(1)
    rank = _Rank(turns.address, 0)
    _wait(turns)
    turns.close()
    rank.join(60)
    assert not rank.is_alive()
    assert rank.gate.next_turn("mnist", 0, 0.1) == 0
    rank.gate.close()


def test_a_rank_that_dies_stands_no_more(listening: TurnSocket) -> None:
    ranks = [_Rank(listening.address, rank) for rank in range(2)]
    _wait(listening)
    ranks[1].gate._socket.shutdown(socket.SHUT_RDWR)
    listening.wait(0.5)
    assert listening.standing() is None
    assert len(listening._ranks) == 1
    listening.give_turn(0)
    for rank in ranks:
        rank.leave()


def test_a_launch_without_the_variable_has_no_gate() -> None:
    assert turn_gate(0, {}) is None
    with pytest.raises(ConnectionRefusedError):
        turn_gate(0, {TURNS: "hvdprof-turns-absent"})


def test_a_child_of_another_user_keeps_no_rank_from_stopping(
    listening: TurnSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []

    def kill(process_id: int, number: int) -> None:
        if process_id == 12:
            raise PermissionError(1, "Operation not permitted")
        sent.append((process_id, number))

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(listening, "process_ids", lambda: [11, 12, 13])
    listening.stop_ranks()
    assert sent == [(11, signal.SIGSTOP), (13, signal.SIGSTOP)]
    sent.clear()
    listening.resume_ranks()
    assert sent == [(11, signal.SIGCONT), (13, signal.SIGCONT)]
    sent.clear()
    # By now the numbers may belong to other processes.
    listening.resume_ranks()
    assert not sent


def _turns_of(turns: SegmentTurns, step_s: float) -> list[int]:
    given = []
    while num_steps := turns.next_steps(step_s):
        given.append(num_steps)
        turns.add(num_steps, num_steps * step_s)
    return given


@pytest.mark.parametrize(
    ("step_s", "expected"),
    [
        (0.01, [100, 100, 100]),
        (0.3, [3, 3, 3, 3]),
        (2.0, [3, 3, 3, 3]),
    ],
)
def test_turns_of_a_second_until_the_time_is_reached(step_s: float, expected: list[int]) -> None:
    assert _turns_of(SegmentTurns(TIMED, turn_s=1.0), step_s) == expected


def test_a_short_segment_has_two_turns_all_the_same() -> None:
    short = SegmentTurns(replace(TIMED, max_seconds=0.5), turn_s=1.0)
    assert _turns_of(short, 0.01) == [100, 100]


def test_a_turn_of_steps_of_unknown_length_is_short() -> None:
    assert SegmentTurns(TIMED, turn_s=1.0).next_steps(float("nan")) == 3


def test_the_number_of_steps_is_exact() -> None:
    counted = SegmentTurns(replace(TIMED, num_steps=250, max_seconds=None), turn_s=1.0)
    assert _turns_of(counted, 0.01) == [63, 63, 63, 61]


def test_the_first_bound_that_is_reached_ends_the_segment() -> None:
    assert sum(_turns_of(SegmentTurns(replace(TIMED, num_steps=120), turn_s=1.0), 0.01)) == 120
    assert sum(_turns_of(SegmentTurns(replace(TIMED, num_steps=900), turn_s=1.0), 0.01)) == 300
