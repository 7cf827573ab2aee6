import itertools
from collections.abc import Iterable, Iterator

import pytest

from hvdprof.analyze.steps.other_load import BUSY_CORES
from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine import idle
from hvdprof.machine.idle import IDLE_CORES, IDLE_S, wait_for_idle
from hvdprof.machine.load import CpuUse


class _Clock:
    """A clock that every look sets forward by a second."""

    def __init__(self, loads: Iterable[float]) -> None:
        self._loads: Iterator[float] = iter(loads)
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def look(self) -> float:
        self.now_s += 1.0
        return next(self._loads)


@pytest.fixture
def clock_of(monkeypatch: pytest.MonkeyPatch):
    def build(loads: Iterable[float]) -> _Clock:
        clock = _Clock(loads)
        monkeypatch.setattr(idle, "time", clock)
        return clock

    return build


def test_a_machine_is_idle_after_twenty_seconds(clock_of) -> None:
    clock = clock_of(itertools.repeat(0.05))
    assert wait_for_idle(600, other_cores=clock.look) == IDLE_S


def test_a_build_is_waited_for_and_a_short_peak_is_none(clock_of) -> None:
    seen: list[float] = []
    clock = clock_of(itertools.chain([1.1] * 30, [0.0] * 5, [0.6], itertools.repeat(0.0)))
    waited_s = wait_for_idle(600, other_cores=clock.look, on_look=seen.append)
    # 2.2 of the last seconds of the build and the peak are within the mean.
    assert 45 < waited_s < 52
    assert seen[0] == 1.1 and seen[-1] < 0.2


def test_one_that_is_never_idle_is_not_measured(clock_of) -> None:
    clock = clock_of(itertools.chain([1.5] * 10, itertools.repeat(0.9)))
    with pytest.raises(
        EnvironmentNotReadyError, match=r"at least 0\.9 cores busy\. Nothing"
    ) as raised:
        wait_for_idle(60, other_cores=clock.look)
    assert clock.now_s == 60
    assert "--wait-for-quiet" in raised.value.hint


def test_what_is_waited_for_is_a_machine_that_gets_no_warning() -> None:
    assert IDLE_CORES == BUSY_CORES


def test_a_load_that_is_not_known_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "LOOK_S", 0.01)
    monkeypatch.setattr(CpuUse, "stop", lambda self: None)
    with pytest.raises(EnvironmentNotReadyError, match="is not known"):
        wait_for_idle(60)
