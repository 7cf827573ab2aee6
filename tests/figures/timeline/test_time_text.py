import pytest

from hvdprof.figures.timeline.time_text import length_text, place_text


@pytest.mark.parametrize(
    ("time_ns", "length", "place"),
    [
        (26_700, "26.7 µs", "0.027 ms"),
        (36_912_345, "36.9 ms", "36.912 ms"),
        (10_092_502_000_000, "10,092.5 s", "10,092.502000 s"),
    ],
)
def test_times_scale_their_unit(time_ns, length, place):
    assert length_text(time_ns) == length
    assert place_text(time_ns) == place
