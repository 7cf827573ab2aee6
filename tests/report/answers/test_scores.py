import io
import json
import math

import pandas as pd

from hvdprof.analyze.predict.forecast_score import forecast_errors
from hvdprof.model.tables.forecast_tables import FORECAST_ERRORS, FORECAST_SCORES
from hvdprof.report.answers.scores import score_answer, score_verdict
from tests.builders.declared_rows import declared_rows


def scores(*errors: float, counted: bool = True, is_open: bool = False) -> pd.DataFrame:
    cell = {"model": "resnet50", "engine": "horovod", "scenario": "measured", "predicted_by": "a"}
    return declared_rows(
        FORECAST_SCORES,
        *(
            cell
            | {
                "np": 8,
                "measured_by": "b",
                "extrapolation": 2.0,
                "predicted_samples_per_s": 680.0,
                "measured_samples_per_s": 680.0 / 1.03,
                "log_error": error,
                "in_50": abs(error) < 0.04,
                "in_90": abs(error) < 0.1,
                "is_open": is_open,
                "is_counted": counted,
            }
            for error in errors
        ),
    )


def page(rows: pd.DataFrame) -> str:
    stream = io.StringIO()
    score_answer(rows, forecast_errors(rows), ("c was not read.",)).write(
        "terminal", stream, width=110
    )
    return stream.getvalue()


def test_the_verdict_counts_measurements_within_the_band():
    assert score_verdict(scores(0.03, -0.02, 0.2)) == (
        "2 of 3 measurements within the 90 % band, median error of the step time 3.0 %."
    )


def test_bands_without_a_lower_end_are_counted_apart():
    both = pd.concat([scores(0.03, 0.2), scores(0.03, is_open=True)])

    assert score_verdict(both) == (
        "1 of 2 measurements within the 90 % band, 1 of 1 measurement below the upper end "
        "of an open band, median error of the step time 3.0 %."
    )
    assert score_verdict(scores(0.03, is_open=True)).startswith("1 of 1 measurement below")
    assert "50 %, open" in page(both)


def test_the_page_has_every_score_and_the_errors_so_far():
    text = page(scores(0.03, -0.02, 0.2))

    assert "+3.0 %" in text
    assert "-2.0 %" in text
    assert "outside" in text
    assert "up to x2" in text
    assert "A 90 % factor requires 9 scores." in " ".join(text.split())
    assert "! c was not read." in text


def test_nine_scores_give_a_factor():
    assert "x/÷ 1.105" in page(scores(*[0.01] * 8, 0.1))


def test_one_measurement_against_forecasts_that_do_not_count_is_no_success():
    several = scores(*[0.01] * 5, counted=False)

    assert score_verdict(several) == "1 measurement, but no forecast of them counts."
    assert score_verdict(pd.concat([several, scores(0.2)])).startswith("0 of 1 measurement within")
    assert "not counted" in page(several)


def test_verdict_rows_and_errors_have_one_definition_of_the_error():
    """A step of a quarter of the predicted time is -75 % of it, not 300 %."""
    rows = scores(math.log(0.25))

    assert "median error of the step time 75.0 %" in score_verdict(rows)
    assert page(rows).count("-75.0 %") == 2
    assert forecast_errors(rows)["median_error"].tolist() == [0.75]


def test_a_terminal_of_80_columns_shows_every_head_and_number_whole():
    rows = scores(*[0.01] * 8, 0.1).assign(
        predicted_by="20261124-103012-bench",
        measured_by="20261124-113012-bench",
        scenario="25Gbit,15us",
        predicted_samples_per_s=680_000.0,
        measured_samples_per_s=660_194.0,
    )
    stream = io.StringIO()

    score_answer(rows, forecast_errors(rows), ()).write("terminal", stream, width=80)

    text = stream.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("20261124-103012-bench, 25Gbit,15us", "680,000", "660,194", "x/÷ 1.105"):
        assert whole in text


def test_scores_that_are_not_counted_are_named():
    assert "1 score not counted" in page(scores(0.03, counted=False))


def test_nothing_measured_yet_says_what_to_measure():
    text = page(FORECAST_SCORES.empty())

    assert text.startswith("No predicted size was measured yet.")
    assert "Measure a predicted size" in text


def test_json_and_csv_hold_the_rows():
    stream, table = io.StringIO(), io.StringIO()
    rows = scores(0.03)

    score_answer(rows, FORECAST_ERRORS.empty(), ()).write("json", stream)
    score_answer(rows, FORECAST_ERRORS.empty(), ()).write("csv", table)

    content = json.loads(stream.getvalue())
    assert content["forecast_scores"][0]["np"] == 8
    assert content["schema_version"] == 1
    assert len(table.getvalue().splitlines()) == 2
