import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.errors import UsageError
from hvdprof.launch.plan.hosts import (
    Capacity,
    Crowd,
    Host,
    can_pin,
    crowds,
    fit_together,
    have_room,
    is_this_host,
    parse_hosts,
    ranks_by_host,
    threads_that_fit,
)
from tests.builders.bench_settings import bench_settings

UNEQUAL = Capacity({"a": 8, "b": 2}, {"a": 4, "b": 1}, nccl=False)
GIB = 2**30


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


def test_only_the_host_that_is_too_small_is_crowded():
    settings = bench_settings(num_threads=2)
    assert crowds(settings, UNEQUAL, {"a": 2, "b": 2}) == [Crowd("b", offered=2, wanted=4)]
    assert crowds(settings, UNEQUAL, {"a": 4, "b": 1}) == []
    assert crowds(settings, UNEQUAL, {"a": 2, "unknown": 64}) == []


def test_on_gpus_ranks_are_counted_and_not_their_threads():
    settings = bench_settings(device="cuda", num_threads=16)
    assert crowds(settings, UNEQUAL, {"a": 4, "b": 2}) == [Crowd("b", offered=1, wanted=2)]


def test_ranks_are_pinned_where_every_host_has_the_cores():
    settings = bench_settings(num_threads=2)
    assert can_pin(settings, UNEQUAL, {"a": 4, "b": 1}, timeline=False)
    # The writer of the timeline wants one more.
    assert not can_pin(settings, UNEQUAL, {"a": 2, "b": 1}, timeline=True)
    assert not can_pin(settings, UNEQUAL, {"a": 1, "b": 2}, timeline=False)
    assert can_pin(settings, UNEQUAL, {"unknown": 2}, timeline=True)


@pytest.mark.parametrize(
    ("placements", "threads"),
    [
        ([{"a": 1}], 8),
        ([{"a": 1}, {"a": 2}], 4),
        ([{"a": 1}, {"a": 1, "b": 1}], 2),
        # Four ranks do not fit on b: the largest that does decides.
        ([{"a": 2}, {"a": 2, "b": 2}, {"a": 4, "b": 4}], 1),
        ([{"a": 2}, {"a": 4, "b": 4}], 4),
        ([{"b": 3}], 1),
        ([{"a": 2, "unknown": 64}], 4),
        ([{"unknown": 1}], 1),
        ([], 1),
    ],
)
def test_the_smallest_share_of_cores_decides_the_threads(placements, threads):
    assert threads_that_fit(placements, UNEQUAL.cores_by_host) == threads


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 64), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 16), min_size=1),
)
def test_threads_that_fit_crowd_no_host_unless_even_one_does(cores, placed):
    threads = threads_that_fit([placed], cores)
    crowded = crowds(bench_settings(num_threads=threads), Capacity(cores, {}, nccl=False), placed)
    assert threads == 1 or not crowded
    more = bench_settings(num_threads=threads + 1)
    if not crowded and placed.keys() & cores.keys():
        assert crowds(more, Capacity(cores, {}, nccl=False), placed)


@pytest.mark.parametrize(
    ("num_ranks", "num_parameters", "available_bytes", "fit"),
    [
        (4, 11_700_000, 8 * GIB, True),
        (4, 11_700_000, 4 * GIB, False),
        (4, 138_000_000, 24 * GIB, False),
        (128, 25_600_000, 256 * GIB, True),
        (1, 0, None, False),
    ],
)
def test_ranks_fit_with_room_to_spare(
    num_ranks: int, num_parameters: int, available_bytes: int | None, fit: bool
) -> None:
    assert fit_together(num_ranks, num_parameters, available_bytes) == fit


@pytest.mark.parametrize(
    ("available_bytes", "room"), [(8 * GIB, True), (6 * GIB, False), (None, False)]
)
def test_ranks_that_run_show_whether_more_fit_beside_them(
    available_bytes: int | None, room: bool
) -> None:
    # Two ranks take 2 GiB, may grow by half, and three more are to come: 4.5 of 70 %.
    assert have_room(2 * GIB, 2, 3, available_bytes) == room
