import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.launch.plan.capacity import Capacity, Crowd, can_pin, crowds, threads_that_fit
from tests.builders.bench_settings import bench_settings

UNEQUAL = Capacity({"a": 8, "b": 2}, {"a": 4, "b": 1}, nccl=False)


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
