from hvdprof.figures.log_axis import log_axis


def test_over_decades_only_decades_are_named():
    assert log_axis([0, 1, 1000])["dtick"] == 1


def test_within_one_decade_plotly_names_more():
    assert "dtick" not in log_axis([2, 9])
    assert log_axis([])["type"] == "log"
