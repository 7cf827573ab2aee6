from pathlib import Path

import pytest

from hvdprof.machine.install.cache_folder import cache_folder


def test_own_variable_comes_first() -> None:
    variables = {"HVDPROF_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}
    assert cache_folder(variables) == Path("/c")


def test_then_the_desktop_standard_then_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/hvdprof")
    assert cache_folder({}) == Path("/home/me/.cache/hvdprof")


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder({"XDG_CACHE_HOME": "x"}) == Path("/home/me/.cache/hvdprof")


def test_a_home_in_the_variable_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder({"HVDPROF_CACHE_DIR": "~/c"}) == Path("/home/me/c")
