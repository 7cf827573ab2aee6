from hvdprof.figures.log_axis import log_axis


def test_over_decades_only_decades_are_named():
    assert log_axis([0, 1, 1000])["dtick"] == 1


def test_within_a_decade_twos_and_fives_are_named_too():
    assert log_axis([2, 9])["dtick"] == "D2"
    assert log_axis([])["type"] == "log"
