import io
import json

import pytest

from hvdprof.report.answers.scores import forecast_answer
from hvdprof.report.sections.forecast_page import (
    render_forecast_csv,
    samples_per_currency,
)
from tests.builders.finished_forecast import SIZES, finished_forecast


def test_json_holds_every_table_and_the_question():
    stream = io.StringIO()

    forecast_answer(finished_forecast(is_open=True), run="runs/a").write("json", stream)

    content = json.loads(stream.getvalue())
    assert content["schema_version"] == 1
    assert content["question"]["sizes"] == list(SIZES)
    assert content["question"]["seed"] == finished_forecast().question.seed
    assert content["next"]["command"] == "hvdprof net --hosts HOST1,HOST2"
    assert [row["np"] for row in content["forecast"]] == list(SIZES)
    # An open end is null, never NaN.
    assert content["forecast"][0]["efficiency_p5"] is None
    assert {row["term"] for row in content["forecast_causes"]} >= {"exposed-transfer", "jitter"}
    assert content["forecast_widths"][0]["input"] == "links"
    assert content["forecast_measure"][0]["measurement"] == "network"
    assert content["limits"][0]["knee"] == 16
    assert content["missing"][0]["what"] == "the network between hosts"
    assert "cost" not in content


def test_a_price_adds_the_cost_to_json_and_csv():
    stream, table = io.StringIO(), io.StringIO()

    forecast_answer(finished_forecast(), price=2.5).write("json", stream)
    render_forecast_csv(finished_forecast(), table, price=2.5)

    cost = json.loads(stream.getvalue())["cost"]
    # 680 samples/s * 3600 s / (8 ranks * 2.5)
    assert cost[0]["samples_per_currency_p50"] == pytest.approx(122_400)
    head = table.getvalue().splitlines()[0]
    assert head.endswith("samples_per_currency_p75,samples_per_currency_p95")


def test_csv_has_a_line_per_size_and_network():
    stream = io.StringIO()

    render_forecast_csv(finished_forecast(("1Gbit", "25Gbit"), losses=(0.1, 0.05)), stream)

    head, *rows = stream.getvalue().splitlines()
    assert head.startswith("model,np,engine,compression,reduction,scenario,")
    assert len(rows) == 2 * len(SIZES)


def test_twice_the_ranks_at_the_same_efficiency_cost_the_same_per_sample():
    rows = finished_forecast(losses=(0.001,)).rows

    costs = samples_per_currency(rows, 1.0)["samples_per_currency_p50"]

    assert costs.iloc[0] == pytest.approx(costs.iloc[-1], rel=0.01)
