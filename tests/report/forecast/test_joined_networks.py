import dataclasses
import math

import pytest

from hvdprof.model.causes import JITTER
from hvdprof.report.forecast.joined_networks import (
    band_50,
    chances_of,
    efficiencies_of,
    network_rows,
    rates_of,
)
from tests.builders.finished_forecast import finished_forecast

NETWORKS = ("1Gbit", "25Gbit", "100Gbit")


def test_every_row_is_in_one_group_of_its_size():
    forecast = finished_forecast(NETWORKS, losses=(0.12, 0.05, 0.05))
    shuffled = dataclasses.replace(forecast, rows=forecast.rows.sample(frac=1, random_state=1))

    groups = [(names, rows[0]["np"], len(rows)) for names, rows in network_rows(shuffled)]

    assert groups == [
        (names, size, number)
        for size in (8, 16, 32, 64)
        for names, number in (("1Gbit", 1), ("25Gbit, 100Gbit", 2))
    ]


def test_another_cause_has_a_row_of_its_own():
    same = finished_forecast(NETWORKS, losses=(0.05, 0.05, 0.05), sizes=(8,))
    rows = same.rows.assign(dominating=["exposed-transfer", JITTER, JITTER])

    groups = [names for names, _ in network_rows(dataclasses.replace(same, rows=rows))]

    assert groups == ["1Gbit", "25Gbit, 100Gbit"]


def test_joined_rows_show_the_range_of_all():
    forecast = finished_forecast(NETWORKS, losses=(0.055, 0.05, 0.05), sizes=(8,))
    ((_, rows),) = network_rows(forecast)

    assert efficiencies_of(rows) == ("84 to 85", "74 to 94")
    assert band_50(rows) == "79 to 89 %"
    assert chances_of(rows) == "69 to 78 %"
    assert rates_of(rows) == "668 to 680"
    assert (rates_of(rows[1:]), efficiencies_of(rows[1:])[0]) == ("680", "85")


@pytest.mark.parametrize("losses", [(0.05, 0.05, 0.05), (0.052, 0.05, 0.05)])
def test_an_open_band_stays_open(losses):
    forecast = finished_forecast(NETWORKS, losses=losses, sizes=(8,), is_open=True)
    ((_, rows),) = network_rows(forecast)

    assert math.isnan(rows[0]["efficiency_p5"])
    assert efficiencies_of(rows)[1] == "94 or less"
