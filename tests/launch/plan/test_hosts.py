import socket

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.hosts import Host, is_this_host, parse_hosts, ranks_by_host


def test_hosts_with_and_without_slots() -> None:
    assert parse_hosts("h1:4, h2,h3:1") == (Host("h1", 4), Host("h2", 1), Host("h3", 1))


@pytest.mark.parametrize(
    "text",
    [
        *("", "h1:", ":4", "h1:0", "h1:x", "h1:2,", "h1:2,h1:2"),
        *("h1,-oProxyCommand=/x", "-oProxyCommand=/x:2", "h1;id:2", "h1 h2", "$(id):1"),
    ],
)
def test_what_is_not_a_host_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--hosts"):
        parse_hosts(text)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, {"a": 1}), (2, {"a": 2}), (3, {"a": 2, "b": 1}), (5, {"a": 2, "b": 3})],
)
def test_hosts_are_filled_in_order(size: int, expected: dict[str, int]) -> None:
    assert ranks_by_host((Host("a", 2), Host("b", 4)), size) == expected


def test_names_of_this_host() -> None:
    assert is_this_host("localhost")
    assert is_this_host("127.0.0.1")
    assert is_this_host(socket.gethostname())
    assert not is_this_host("192.0.2.7")
    assert not is_this_host("no-such-host.invalid")
