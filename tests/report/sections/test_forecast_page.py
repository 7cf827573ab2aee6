import dataclasses
import io
import math
from typing import Any

import pytest

from hvdprof.model.causes import JITTER, NOT_IN_MODEL
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.results.forecast import STATED_BASELINE, Forecast
from hvdprof.model.tables.forecast_tables import FORECAST_MEASURE
from hvdprof.report.answers.scores import forecast_answer
from hvdprof.report.sections.forecast_texts import (
    caveat_of,
    knee_sentences,
    limited_by,
    network_name,
    next_step_of,
    reach_of,
    verdict_of,
    width_sentence,
)
from tests.builders.finished_forecast import finished_forecast
from tests.builders.written import written

EXPECTED = """\
70 % (90 % band 51 to 88) scaling efficiency on 64 ranks.
Exposed transfer (bandwidth) limits it. 80 % is reached up to 16 ranks (90 % interval 8 to more than
64).
Caveat: Extrapolated to 16 times the largest measured size (np=1, 2, 4).
Next: about 1 min on np=2 narrows the 90 % band on 64 ranks from 37 to about 25 points.
      hvdprof net --hosts HOST1,HOST2

resnet50 over the measured network, against torch np=1
              efficiency %                     chance
       np      (90 % band)         samples/s  of 80 %
  (hosts)        50 % band       (90 % band)  or more  limited by
        8  85.0 (75 to 94)               680     78 %  exposed transfer (bandwidth)
      (2)         81 to 89      (603 to 752)
       16  80.0 (67 to 92)             1,280     50 %  exposed transfer (bandwidth)
      (4)         74 to 86  (1,075 to 1,472)
       64  70.0 (51 to 88)             4,480     22 %  exposed transfer (bandwidth)
     (16)         62 to 78  (3,251 to 5,632)
  Knee at 16 ranks: the next doubling costs more than 5 points of efficiency (probability 70 %).
  Variance of the efficiency on 64 ranks by input: latency and bandwidth of the links 55 %, model
  error beyond the measured sizes 30 %, jitter from step to step 10 %.

Lost points of efficiency by cause, means; gains are negative
  cause             np=8  np=16  np=64
  exposed transfer  10.5   14.0   21.0
  jitter             3.8    5.0    7.5
  mean model error   0.8    1.0    1.5
  sum               15.0   20.0   30.0

Assumptions
  The batch per rank stays 32.

Not in the run
  The network between hosts. The forecast uses stated speeds. Measure it: hvdprof net --hosts
  HOST1,HOST2
"""


def page(forecast: Forecast, width: int = 100, **given: float) -> str:
    stream = io.StringIO()
    forecast_answer(forecast, run="runs/a", **given).write("terminal", stream, width=width)
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
        over = " and ".join(map(network_name, found.scenarios))
        title = f"resnet50 over {over} {clause}, against torch np=1"
        assert title in " ".join(page(found).split())


@pytest.mark.heavy
def test_html_draws_the_page_and_says_which_intervals_are_not_of_95_percent():
    text = written(forecast_answer(finished_forecast()), "html")
    assert text.rstrip().endswith("</html>")
    assert "90 % band" in text
    assert "95 % intervals where the heading states no other" in text


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


SEVERAL = """\
Scaling efficiency on 64 ranks: 28 % (90 % band 9 to 46) over 1Gbit, 70 % (90 % band
51 to 88) over 100Gbit.
Exposed transfer (bandwidth) limits it.
Largest number of ranks at 80 %: 1Gbit: 3, 25Gbit: 15, 100Gbit: 16.
Caveat: Extrapolated to 16 times the largest measured size (np=1, 2, 4).
Next: about 1 min on np=2 narrows the 90 % band on 64 ranks over 1Gbit from 37 to
      about 25 points.
      hvdprof net --hosts HOST1,HOST2

resnet50 over 3 networks, against torch np=1
                                        chance
       np  efficiency %                of 80 %
  (hosts)   (90 % band)  samples/s     or more  limited by            over
        8            64        512         1 %  exposed transfer      1Gbit
      (2)    (54 to 73)                         (bandwidth)
        8            85     676 to  75 to 78 %  exposed transfer      25Gbit, 100Gbit
      (2)    (75 to 94)        680              (bandwidth)
       64            28      1,792         1 %  exposed transfer      1Gbit
     (16)     (9 to 46)                         (bandwidth)
       64      69 to 70   4,422 to  20 to 22 %  exposed transfer      25Gbit, 100Gbit
     (16)    (50 to 88)      4,480              (bandwidth)
  Knee at 16 ranks: the next doubling costs more than 5 points of efficiency
  (probability 70 %).
"""


def test_networks_share_one_table_and_a_row_where_they_say_nearly_the_same():
    forecast = finished_forecast(
        ("1Gbit", "25Gbit", "100Gbit"), losses=(0.12, 0.0515, 0.05), sizes=(8, 64)
    )

    text = page(forecast, width=85)

    assert text.startswith(SEVERAL)
    assert "Lost points" not in text


def test_a_network_that_changes_nothing_is_not_called_deciding():
    names = ("10Gbit", "25Gbit", "400Gbit")
    same = finished_forecast(names, losses=(0.05, 0.05, 0.05))
    jitter = dataclasses.replace(same, rows=same.rows.assign(dominating=JITTER, dominating_part=""))

    assert verdict_of(jitter) == (
        "70 % (90 % band 51 to 88) scaling efficiency on 64 ranks over each of 3 networks. Jitter "
        "limits it."
    )
    assert "10Gbit, 25Gbit, 400Gbit" in " ".join(page(jitter, width=120).split())


def test_networks_with_different_causes_name_them_all():
    made = finished_forecast(("1Gbit", "25Gbit", "100Gbit"), losses=(0.12, 0.05, 0.04))
    fast = (made.rows["scenario"] != "1Gbit").to_numpy()
    rows = made.rows.assign(
        dominating=made.rows["dominating"].where(~fast, JITTER),
        dominating_part=made.rows["dominating_part"].where(~fast, ""),
    )

    assert verdict_of(dataclasses.replace(made, rows=rows)).endswith(
        " Exposed transfer (bandwidth) limits it over 1Gbit, jitter over the other networks."
    )


def test_a_cause_of_few_draws_is_not_sure():
    made = finished_forecast()
    open_ = dataclasses.replace(made, rows=made.rows.assign(dominating_probability=0.4))

    assert verdict_of(open_).endswith(" Exposed transfer (bandwidth) costs most on average.")


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


def test_no_knee_is_said_and_one_at_one_rank_is_singular():
    (limits,) = finished_forecast().limits

    assert list(knee_sentences([dataclasses.replace(limits, knee=None)])) == [
        "No knee in the predicted sizes."
    ]
    (one,) = knee_sentences([dataclasses.replace(limits, knee=1)])
    assert one.startswith("Knee at 1 rank: ")


def test_knees_of_several_networks_name_them():
    slow, middle, fast = finished_forecast(("a", "b", "c"), losses=(0.1, 0.1, 0.01)).limits
    fast = dataclasses.replace(fast, knee=None)

    assert list(
        knee_sentences([fast, slow, dataclasses.replace(middle, knee_probability=0.9)])
    ) == [
        "Knee at 16 ranks over a, b: the next doubling costs more than 5 points of efficiency "
        "(probability 70 to 90 %).",
        "No knee in the predicted sizes over c.",
    ]


def test_caveats_of_the_run_are_those_of_its_forecast():
    busy = Note(NoteCode.OTHER_LOAD, "Other processes kept cores busy during 3 of 4 passes.")
    carried = dataclasses.replace(finished_forecast(), caveats=(busy,))

    assert caveat_of(carried).endswith(f" {busy.text}")


def test_a_machine_that_was_too_busy_is_the_verdict_and_what_to_do_is_to_wait():
    busy = Note(NoteCode.TOO_BUSY, "The machine was too busy.", value="hvdprof bench --wait")
    found = dataclasses.replace(finished_forecast(), caveats=(busy,))

    text = page(found)

    assert text.startswith("The machine was too busy.\nThe numbers below are those of a busy")
    assert text.count(busy.text) == 1
    assert "Next: Measure it again when the machine is idle.\n      hvdprof bench --wait\n" in text
    assert "is reached up to" not in text


def test_a_band_that_is_wider_than_all_that_is_possible_is_not_known():
    found = finished_forecast(sizes=(8, 64))
    wide = found.rows.assign(efficiency_p5=0.01, efficiency_p95=30.53)

    verdict = verdict_of(dataclasses.replace(found, rows=wide))

    open_below = found.rows.assign(efficiency_p5=math.nan, efficiency_p95=4.82)
    assert verdict_of(dataclasses.replace(found, rows=open_below)).endswith("spans up to 482 %.")
    assert verdict == (
        "The scaling efficiency on 64 ranks is not known: its 90 % band spans 1 % to 3053 %."
    )
