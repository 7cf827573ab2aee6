import socket
import time

import pytest

from hvdprof.launch.remote import host_watch
from hvdprof.launch.remote.host_watch import HostWatch, answers


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class _Hosts:
    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.asked = 0

    def __call__(self, name: str) -> bool:
        self.asked += 1
        return name not in self.gone


def test_hosts_are_not_asked_while_ranks_make_progress() -> None:
    clock, hosts = _Clock(), _Hosts()
    watch = HostWatch({"b": [1]}, hosts, clock)
    for step in range(50):
        clock.now_s += 1
        watch.look(step)
    assert hosts.asked == 1
    assert watch.lost == {}


def test_a_host_that_is_gone_is_lost_after_a_while() -> None:
    clock, hosts = _Clock(), _Hosts()
    watch = HostWatch({"b": [1], "c": [2]}, hosts, clock)
    watch.look(7)
    hosts.gone = {"c"}
    asked = hosts.asked
    clock.now_s += host_watch.NO_PROGRESS_S
    watch.look(7)
    assert watch._asking is not None
    watch._asking.join()
    assert hosts.asked == asked + 2
    for _ in range(2):
        clock.now_s += 4
        watch.ask()
        assert watch.lost == {}
    clock.now_s += 4
    assert watch.lost == {"c": pytest.approx(12, abs=0.1)}


def test_a_host_that_comes_back_in_time_is_not_lost() -> None:
    clock, hosts = _Clock(), _Hosts()
    watch = HostWatch({"b": [1]}, hosts, clock)
    hosts.gone = {"b"}
    watch.ask()
    watch.ask()
    hosts.gone = set()
    watch.ask()
    hosts.gone = {"b"}
    clock.now_s += 60
    watch.ask()
    assert watch.lost == {}


def test_a_host_that_never_answers_is_not_watched() -> None:
    hosts = _Hosts()
    hosts.gone = {"b"}
    watch = HostWatch({"b": [1], "c": [2]}, hosts)
    assert watch.hosts == {"c": [2]}
    assert hosts.asked == 3
    watch.ask_to_the_end()
    assert watch.lost == {}


def test_asking_to_the_end_ends_with_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, hosts = _Clock(), _Hosts()

    def sleep(seconds: float) -> None:
        clock.now_s += seconds + 3

    monkeypatch.setattr(time, "sleep", sleep)
    watch = HostWatch({"b": [1], "c": [2]}, hosts, clock)
    hosts.gone = {"b"}
    watch.ask_to_the_end()
    assert set(watch.lost) == {"b"}


def test_a_refusal_is_an_answer_and_silence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(host_watch, "_PORT", listener.getsockname()[1])
        assert answers("127.0.0.1")
    assert answers("127.0.0.1")
    assert not answers("no-such-host.invalid")
