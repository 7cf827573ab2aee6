"""The table and the plot of growth show the slope that the runs have."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.growth import Run, plot_of, slope, table_of


def _runs(*pairs: tuple[int, float]) -> list[Run]:
    return [Run(number, seconds, seconds / 2, 150.0) for number, seconds in pairs]


def test_slope_is_that_of_the_two_largest_runs() -> None:
    assert slope(_runs((1, 5.0), (10, 6.0), (20, 12.0))) == pytest.approx(1.0)
    assert slope(_runs((10, 2.0), (40, 4.0))) == pytest.approx(0.5)


def test_table_and_plot_show_every_run_once() -> None:
    found = {"ranks": _runs((64, 2.0), (4096, 20.0)), "steps": _runs((250, 3.0), (1000, 3.0))}
    lines = table_of(found).splitlines()
    assert lines[2:4] == [
        "| 64 ranks, 20 steps | 2.0 | 1.0 | 150 MB |  |",
        "| 4,096 ranks, 20 steps | 20.0 | 10.0 | 150 MB | 0.55 |",
    ]
    assert lines[-1].endswith("| 0.00 |")
    picture = ET.fromstring(plot_of(found))
    space = "{http://www.w3.org/2000/svg}"
    circles = [float(one.get("cy", "")) for one in picture.iter(f"{space}circle")]
    assert len(circles) == 4
    # More seconds stand higher, equal ones side by side.
    assert circles[1] < circles[0]
    assert circles[2] == circles[3]
    assert "ranks, slope 0.55" in "".join(picture.itertext())
