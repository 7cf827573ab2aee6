import pandas as pd

from hvdprof.figures.style.band import band


def test_the_outline_goes_along_the_upper_end_and_back_along_the_lower() -> None:
    rows = pd.DataFrame({"np": [1, 2, 4], "low": [0.9, 0.8, 0.7], "high": [1.0, 0.95, 0.9]})
    trace = band(rows["np"], rows["low"], rows["high"], "rgba(0,0,0,0.1)", "a")
    assert list(zip(trace.x, trace.y, strict=True)) == [
        (1, 1.0),
        (2, 0.95),
        (4, 0.9),
        (4, 0.7),
        (2, 0.8),
        (1, 0.9),
    ]
    assert (trace.name, trace.legendgroup, trace.showlegend) == ("a", "a", False)
