import io
from types import SimpleNamespace

import pytest

from hvdprof import api
from hvdprof.api import measurement as api_measurement
from hvdprof.api.options import RunOptions
from hvdprof.cli.measuring.idle import wait_for_idle
from hvdprof.errors import UsageError


class _Waiting:
    """Stands for a measurement: it looks at some loads, then the machine is idle."""

    def __init__(self, loads: list[float], waited_s: float) -> None:
        self._loads, self._waited_s = loads, waited_s

    def wait_for_idle(self, *, on_look) -> float:
        for load in self._loads:
            on_look(load)
        return self._waited_s


def test_the_load_is_shown_at_first_and_then_twice_a_minute() -> None:
    shown = io.StringIO()
    wait_for_idle(_Waiting([1.1] * 30 + [0.4] * 20, 50.0), shown)
    assert shown.getvalue().splitlines() == [
        "hvdprof: waiting; other processes keep 1.1 cores busy",
        "hvdprof: waiting; other processes keep 0.4 cores busy",
        "hvdprof: idle after 50 s",
    ]


def test_nothing_is_shown_without_a_wait_or_a_stream() -> None:
    shown = io.StringIO()
    wait_for_idle(_Waiting([], 0.0), shown)
    wait_for_idle(_Waiting([1.0], 30.0), None)
    assert not shown.getvalue()


@pytest.mark.parametrize("given", ["soon", "5s", -1])
def test_a_time_that_is_none_or_too_short_is_refused(given) -> None:
    with pytest.raises(UsageError, match="--wait-for-quiet"):
        api.plan_measurement(RunOptions(np=2, wait_for_idle=given, command=("python", "a.py")))


def test_a_measurement_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def waited(limit_s: float, *, on_look) -> float:
        limits.append(limit_s)
        return 21.0

    monkeypatch.setattr(api_measurement, "wait_for_idle", waited)
    measurement = api.Measurement.__new__(api.Measurement)
    measurement._is_idle = False
    options = SimpleNamespace(wait_for_idle="10m")
    monkeypatch.setattr(api.Measurement, "settings", SimpleNamespace(options=options))
    assert measurement.wait_for_idle() == 21.0
    assert measurement.wait_for_idle() == 0.0
    assert limits == [600.0]
