"""The price of a GPU or rank: whose it is, and what the loss that the verdict names costs."""

import json
from dataclasses import replace

import pytest

from hvdprof import units
from hvdprof.analyze.verdict.loss_cost import price_of, with_price
from hvdprof.api import analyze_run, load_run
from hvdprof.errors import UsageError
from hvdprof.launch.plan.run_options import FunctionOptions, RunOptions
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.run_tables import RANKS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.document.json_report import json_object
from hvdprof.report.screen.open_points import verdict_band
from hvdprof.report.screen.tiles import verdict_cell
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import manifest
from tests.builders.recorded_runs import unpacked


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return load_run(unpacked("bench-engines-late-rank", tmp_path_factory.mktemp("runs")))


@pytest.mark.parametrize(
    ("given", "of_run", "environment", "expected"),
    [
        (3.0, 2.0, "1.5", 3.0),
        (None, 2.0, "1.5", 2.0),
        (None, None, "1.5", 1.5),
        (None, None, "", None),
        (0.0, 2.0, "1.5", None),
    ],
)
def test_the_given_price_wins_over_that_of_the_run_and_of_the_environment(
    given, of_run, environment, expected
):
    stated = manifest(options={"price": of_run})
    assert price_of(stated, given, {"HVDPROF_PRICE": environment}) == expected


@pytest.mark.parametrize("text", ["cheap", "-1", "nan", "inf"])
def test_what_is_no_price_is_refused_with_where_it_stands(text):
    with pytest.raises(UsageError, match=f"HVDPROF_PRICE {text} is no price"):
        price_of(manifest(), None, {"HVDPROF_PRICE": text})


def test_the_interval_of_the_loss_becomes_that_of_the_money_in_every_format(run):
    analysis = analyze_run(run, price=2.5)
    cost, verdict = analysis.verdict.loss_cost, analysis.verdict
    rows = analysis.table(WATERFALL.name)
    row = rows[rows["cause_id"] == verdict.parts.cause_id].iloc[0]
    assert (cost.device, cost.num_devices, cost.per_hour) == ("rank", 2, 5.0)
    assert cost.loss_per_hour == pytest.approx(5 * row["share"])
    assert cost.loss_per_hour_low == pytest.approx(5 * row["share_low"])
    assert cost.loss_per_hour_high == pytest.approx(5 * row["share_high"])
    assert cost.sentence.endswith(" of 5.00 per hour (2 ranks)")
    assert " ± " in cost.sentence
    assert verdict.sentence.endswith(f"{cost.sentence}.")
    assert verdict.headline.endswith(f"{cost.sentence}.")
    assert cost.sentence in verdict_band(analysis, verdict_cell(analysis)).cost
    of_json = json.loads(json.dumps(json_object(analysis)))["verdict"]["loss_cost"]
    assert of_json["loss_per_hour_low"] == pytest.approx(5 * row["share_low"])
    assert analysis.summary()["loss_cost_per_hour"] == cost.loss_per_hour


def test_without_a_price_or_a_named_loss_there_is_no_money(run):
    known = analyze_run(run)
    tables = known.findings, known.table(WATERFALL.name)
    assert known.verdict.loss_cost is None
    assert known.summary()["loss_cost_per_hour"] is None
    led = replace(known.verdict, parts=replace(known.verdict.parts, lead="Failed at np=2."))
    untold = replace(known.verdict, biggest_loss="", biggest_loss_share=float("nan"))
    for answer in (led, untold):
        assert with_price(run, answer, *tables, 2.5) == answer


def test_ranks_that_share_a_gpu_pay_for_it_once(run):
    known = analyze_run(run)
    ranks = run.ranks.astype({"device": str, "gpu": str})

    def cost(**gpu):
        frames = {RANKS.name: ranks.assign(**gpu)}
        priced = with_price(
            run.extended(frames, ()), known.verdict, known.findings, known.table("waterfall"), 3.0
        )
        return priced.loss_cost

    assert cost(device="cuda:0", gpu="GPU-1").sentence.endswith(" of 3.00 per hour (1 GPU)")
    # Without their UUIDs each rank has one, as they are not more than the GPUs.
    assert cost(device="cuda:0", gpu="").sentence.endswith(" of 6.00 per hour (2 GPUs)")


def test_a_loss_of_the_steps_is_a_smaller_part_of_a_job_with_evaluations(run):
    known = analyze_run(run)
    answer = known.verdict
    outside = {
        "id": "evaluation-excluded",
        "model": answer.model,
        "np": answer.np,
        "engine": answer.engine,
        "job_share": 0.5,
    }
    found = declared_rows(FINDINGS, outside)
    priced = with_price(run, answer, found, known.table(WATERFALL.name), 2.5)
    assert priced.loss_cost.loss_per_hour == pytest.approx(5 * answer.biggest_loss_share / 2)


def test_the_option_is_part_of_the_run_and_small_amounts_have_two_digits():
    for kind in (RunOptions, FunctionOptions):
        assert kind(price=2.5).price == 2.5
    assert units.money(1234.5) == "1,234.50"
    assert units.money(0.00419) == "0.0042"
