import socket

import pytest

from hvdprof.machine.hostname import hostname_resolves


def test_true_when_the_name_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert hostname_resolves()


def test_false_when_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise socket.gaierror(-2, f"Name or service not known: {name}")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert not hostname_resolves()
