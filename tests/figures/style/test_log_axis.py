from hvdprof.figures.style.log_axis import log_axis


def test_over_decades_only_decades_are_named():
    assert log_axis([0, 1, 1000])["dtick"] == 1


def test_within_a_decade_twos_and_fives_are_named_too():
    assert log_axis([2, 9])["dtick"] == "D2"
    assert log_axis([])["type"] == "log"


def test_where_two_and_five_are_not_among_the_values_plotly_chooses():
    assert "dtick" not in log_axis([410, 450])
    assert "dtick" not in log_axis([9, 12])
    assert log_axis([1.9, 5.1])["dtick"] == "D2"
