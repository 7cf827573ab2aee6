import dataclasses
import io
from typing import Any

import pytest

from hvdprof.model.causes import NOT_IN_MODEL
from hvdprof.model.forecast import STATED_BASELINE, Forecast
from hvdprof.model.tables.forecast_tables import FORECAST_MEASURE
from hvdprof.report.forecast.forecast_terminal import render_forecast
from hvdprof.report.forecast.forecast_texts import (
    knee_of,
    limited_by,
    network_name,
    next_step_of,
    reach_of,
    verdict_of,
    width_sentence,
)
from tests.builders.finished_forecast import finished_forecast

EXPECTED = """\
70 % (90 % band 51 to 88) scaling efficiency on 64 ranks. Exposed transfer (bandwidth) limits it.
80 % is reached up to 16 ranks (90 % interval 8 to more than 64).
Caveat: Extrapolated to 16 times the largest measured size (np=1, 2, 4).
Next: about 1 min on np=2 narrows the 90 % band on 64 ranks from 37 to about 25 points.
      hvdprof net --hosts HOST1,HOST2

resnet50 over the measured network, against torch np=1
             efficiency %                       chance
     np       (90 % band)          samples/s   of 80 %
(hosts)         50 % band        (90 % band)   or more   limited by
─────────────────────────────────────────────────────────────────────────────────────
      8   85.0 (75 to 94)                680      78 %   exposed transfer (bandwidth)
    (2)          81 to 89       (603 to 752)
     16   80.0 (67 to 92)              1,280      50 %   exposed transfer (bandwidth)
    (4)          74 to 86   (1,075 to 1,472)
     64   70.0 (51 to 88)              4,480      22 %   exposed transfer (bandwidth)
   (16)          62 to 78   (3,251 to 5,632)
Knee at 16 ranks: the next doubling costs more than 5 points of efficiency (probability 70 %).

Lost points of efficiency by cause, means; gains are negative
                   np=8   np=16   np=64
───────────────────────────────────────
exposed transfer   10.5    14.0    21.0
jitter              3.8     5.0     7.5
mean model error    0.8     1.0     1.5
───────────────────────────────────────
sum                15.0    20.0    30.0

Variance of the efficiency on 64 ranks by input: latency and bandwidth of the links 55 %, model
error beyond the measured sizes 30 %, jitter from step to step 10 %.

Assumptions
- The batch per rank stays 32.

Not in the run
- The network between hosts. The forecast uses stated speeds. Measure it: hvdprof net --hosts
  HOST1,HOST2
"""


def page(forecast: Forecast, width: int = 100, **given: float) -> str:
    stream = io.StringIO()
    render_forecast(forecast, stream, run="runs/a", width=width, **given)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def test_the_page_begins_with_a_verdict_of_two_lines_and_the_next_measurement():
    assert page(finished_forecast(sizes=(8, 16, 64))) == EXPECTED


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("assumed", "clause"),
    [
        ({"settings": {"compression": "fp16"}}, "with compression=fp16"),
        ({"settings": {"batch": "8"}, "scaling": "strong"}, "with batch=8 and strong scaling"),
        ({"algorithm": "tree", "intra": "shm"}, "with the algorithm tree and shm inside hosts"),
        ({"keeps_stragglers": False}, "with no stragglers among added ranks"),
    ],
)
def test_verdict_and_title_say_what_is_assumed(assumed: dict[str, Any], clause: str) -> None:
    for made in (finished_forecast(), finished_forecast(("1Gbit", "25Gbit"), losses=(0.1, 0.05))):
        found = dataclasses.replace(made, question=dataclasses.replace(made.question, **assumed))
        assert f"on 64 ranks {clause}" in verdict_of(found)
        title = f"resnet50 over {network_name(found.scenarios[0])} {clause}, against torch np=1"
        assert title in " ".join(page(found).split())


@pytest.mark.heavy
def test_a_price_adds_what_the_samples_cost():
    assert "currency" not in page(finished_forecast())
    priced = page(finished_forecast(), price=2.5)
    # 680 (603 to 752) samples/s on 8 ranks at 2.5 per rank-hour.
    assert "Samples per unit of currency, at 2.5 per rank and hour" in priced
    assert "122,400\n" in priced
    assert "(108,576 to 135,360)" in priced
    assert "limited by" in priced


def test_a_terminal_of_80_columns_shows_every_number_whole():
    made = finished_forecast(sizes=(8, 64, 512, 4096))
    rates = [name for name in made.rows.columns if name.startswith("samples_per_s")]
    large = dataclasses.replace(made, rows=made.rows.assign(**(1000 * made.rows[rates])))

    text = page(large, width=80, price=2.5)

    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("limited by", "(bandwidth)", "4,096", "(13,414,400 to 41,984,000)"):
        assert whole in text


def test_networks_that_are_unknown_give_a_range_and_a_table_each():
    forecast = finished_forecast(("1Gbit", "25Gbit"), losses=(0.12, 0.05))

    text = page(forecast)

    assert verdict_of(forecast) == (
        "Scaling efficiency on 64 ranks: 28 % (90 % band 9 to 46) over 1Gbit, "
        "70 % (90 % band 51 to 88) over 25Gbit. The network between hosts decides."
    )
    assert reach_of(forecast) == "Largest number of ranks at 80 %: 1Gbit: 3, 25Gbit: 16."
    assert "resnet50 over 1Gbit, against torch np=1" in text
    assert "Lost points" not in text


def test_of_several_networks_each_number_names_its_own():
    several = finished_forecast(("1Gbit", "25Gbit"), losses=(0.12, 0.05))

    assert width_sentence(several).startswith("Variance of the efficiency on 64 ranks over 1Gbit ")
    assert " on 64 ranks over 1Gbit from 37 to" in next_step_of(several)[0]
    assert " over " not in width_sentence(finished_forecast())
    assert " over " not in next_step_of(finished_forecast())[0]


def test_measured_time_beyond_the_simulation_is_an_overhead():
    row = finished_forecast().rows.assign(dominating_part=NOT_IN_MODEL).to_dict("records")[0]

    assert limited_by(row) == "exposed transfer (measured overhead)"


def test_a_target_that_no_network_reaches_is_one_sentence():
    forecast = finished_forecast(("1Gbit", "25Gbit"), losses=(0.12, 0.05))
    limits = tuple(dataclasses.replace(one, largest_np=0) for one in forecast.limits)

    assert reach_of(dataclasses.replace(forecast, limits=limits)) == (
        "No predicted size reaches 80 % over any of these networks."
    )


def test_an_open_band_has_no_lower_end():
    text = page(finished_forecast(is_open=True))

    assert text.startswith("70 % (90 % band 88 or less) scaling efficiency on 64 ranks.")
    words = " ".join(text.split())
    assert "The tail of the jitter is not known, so the band is open below." in words
    assert "88 or less" in text
    assert "nan" not in text


def test_a_model_without_a_run_says_that_nothing_was_measured():
    forecast = dataclasses.replace(finished_forecast(), baseline=STATED_BASELINE)

    assert "Nothing was measured" in page(forecast)
    assert "largest measured size" not in page(forecast)


def test_without_a_dominating_cause_none_is_named():
    forecast = finished_forecast()
    rows = forecast.rows.assign(dominating="", dominating_part="")

    assert limited_by(rows.to_dict("records")[0]) == ""
    changed = dataclasses.replace(forecast, rows=rows)
    assert verdict_of(changed).endswith(" No single cause limits it.")


def test_what_the_run_lacks_comes_next_where_no_measurement_was_weighed():
    forecast = dataclasses.replace(finished_forecast(), measurements=FORECAST_MEASURE.empty())

    assert next_step_of(forecast) == (
        "the network between hosts: the forecast uses stated speeds.",
        "hvdprof net --hosts HOST1,HOST2",
    )
    assert next_step_of(dataclasses.replace(forecast, missing=())) == ("", "")


def test_excluded_sizes_are_named():
    forecast = dataclasses.replace(finished_forecast(), excluded_np=(8,))

    assert "np=8 not used: more ranks than cores." in " ".join(page(forecast).split())


def test_no_knee_is_said():
    limits = dataclasses.replace(finished_forecast().limits[0], knee=None)

    assert knee_of(limits) == "No knee in the predicted sizes."


def test_a_knee_at_one_rank_is_singular():
    limits = dataclasses.replace(finished_forecast().limits[0], knee=1)
    assert knee_of(limits).startswith("Knee at 1 rank: ")
