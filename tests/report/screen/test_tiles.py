from typing import Any

import pytest

from hvdprof.model.causes import COMPUTE_INFLATION, EXPOSED_TRANSFER, JITTER
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.run import VerdictParts
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.screen.tiles import BAD, CAUTION, GOOD, tiles
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import (
    NAN,
    analysis,
    cell,
    finding,
    torch_cell,
    two_toggles,
    verdict,
)


def of_cell(**values):
    return finding(**({"model": "resnet18", "np": 2, "engine": "horovod"} | values))


def by_title(finished, row=None):
    return {tile.title: tile for tile in tiles(finished, row)}


def test_the_five_numbers_of_the_verdicts_cell():
    gains = [of_cell(gain_share=0.1, title="Exposed transfer"), of_cell(gain_share=0.05)]
    shown = by_title(analysis(findings=FINDINGS.frame(gains)))
    assert {title: tile.value for title, tile in shown.items()} == {
        "Scaling efficiency": "84.2 ± 2.3 %",
        "Throughput, samples/s": "1,031 ± 28",
        "Largest cause": "11.3 % of the step",
        # 0.842 / (1 - 0.1): a tenth of the step less.
        "Potential efficiency": "up to 94 %",
        "Trust": "good",
    }
    assert shown["Scaling efficiency"].detail == "resnet18 on 2 ranks, against torch np=1"
    assert shown["Throughput, samples/s"].detail == "ideal 1,224"
    assert shown["Largest cause"].detail == "exposed transfer"
    assert shown["Potential efficiency"].detail == "if fixed: exposed transfer"
    bar = shown["Scaling efficiency"].bar
    assert (bar.value, bar.low, bar.high) == (0.842, 0.819, 0.865)


def test_another_cell_has_its_own_numbers():
    rows = two_toggles()
    shown = by_title(analysis(rows), rows[3])
    assert shown["Scaling efficiency"].value == "89.7 ± 2.6 %"
    assert shown["Scaling efficiency"].detail == ("resnet18 on 2 ranks, fp16, against torch np=1")
    assert shown["Largest cause"].value == "none"
    assert shown["Potential efficiency"].value == "-"


def test_a_cell_that_is_its_own_baseline_gains_samples_and_no_efficiency():
    gains = FINDINGS.frame([of_cell(gain_share=0.2, title="Input-bound")])
    shown = by_title(analysis([torch_cell(), cell(efficiency=1.0)], findings=gains))
    assert shown["Potential throughput"].value == "up to 25 % more samples/s"


EVALUATION = of_cell(id="evaluation-excluded", title="Evaluation", job_share=0.5, gain_share=NAN)
IN_EVALUATION = of_cell(
    id="evaluation-straggler",
    title="Straggler in the evaluation: rank 1",
    phrase="straggler in the evaluation (rank 1)",
    job_share=0.25,
    gain_share=NAN,
)


def test_throughput_is_that_of_the_whole_loop_where_evaluation_takes_a_part_of_it():
    # 80 % of the steps, which are half of the loop: 1 / (1 - 0.4).
    found = FINDINGS.frame([EVALUATION, of_cell(gain_share=0.8, title="Input-bound")])
    shown = by_title(analysis([torch_cell(), cell(efficiency=1.0)], findings=found))
    assert shown["Potential throughput"].value == "up to 67 % more samples/s"
    assert shown["Potential throughput"].detail == (
        "if fixed: input-bound; of the whole loop, evaluation included"
    )


def test_the_tiles_name_the_loss_outside_the_steps_that_the_verdict_names():
    # 30 % of the steps is 15 % of the loop.
    in_steps = of_cell(gain_share=0.3, cost_share=0.3, title="Input-bound")
    found = FINDINGS.frame([EVALUATION, IN_EVALUATION, in_steps])
    shown = by_title(analysis([torch_cell(), cell()], findings=found))
    assert shown["Potential throughput"].value == "up to 33 % more samples/s"
    assert "if fixed: straggler in the evaluation (rank 1" in shown["Potential throughput"].detail
    assert shown["Largest cause"].value == "25.0 % of the recorded time"
    assert shown["Largest cause"].detail == "straggler in the evaluation (rank 1)"


@pytest.mark.parametrize(
    ("values", "tone", "reason"),
    [
        ({}, GOOD, "3 launches agree, no warnings"),
        ({"oversubscribed": True}, BAD, "more ranks than cores or GPUs"),
        (
            {"efficiency_low": 0.7, "efficiency_high": 0.98},
            CAUTION,
            "95 % CI is ±17 % of the value: measure more repeats",
        ),
        (
            {"efficiency_low": 0.2, "efficiency_high": 1.4},
            BAD,
            "95 % CI is ±71 % of the value: measure more repeats",
        ),
        ({"num_launches": 1}, CAUTION, "one launch per cell: add --repeats"),
    ],
)
def test_trust_names_its_reason(values, tone, reason):
    shown = by_title(analysis([torch_cell(), cell(**values)]))["Trust"]
    assert (shown.tone, shown.detail) == (tone, reason)


def test_trust_is_limited_by_the_caveat_and_then_by_warnings():
    caveat = "Other processes kept up to 1.7 of 2 cores busy. Measure again."
    shown = by_title(analysis(verdict=verdict(caveat=caveat), warnings=("Few steps. More.",)))
    assert shown["Trust"].tone == CAUTION
    assert shown["Trust"].detail == "Other processes kept up to 1.7 of 2 cores busy"
    assert by_title(analysis(warnings=("Few steps. More.",)))["Trust"].detail == "Few steps"


def test_an_oversubscribed_cell_has_no_efficiency():
    shown = by_title(analysis([torch_cell(), cell(oversubscribed=True)]))
    assert shown["Scaling efficiency"].value == "-"
    assert "no statement on scaling" in shown["Scaling efficiency"].detail
    assert shown["Throughput, samples/s"].detail == ""


def test_a_run_without_results_has_five_tiles_too():
    shown = tiles(analysis([], verdict=verdict(model="", np=0)))
    assert [tile.value for tile in shown] == ["-", "-", "-", "-", "low"]


def test_a_baseline_has_no_efficiency_of_its_own():
    own = cell(np=2, efficiency=1.0, efficiency_low=NAN, efficiency_high=NAN)
    shown = by_title(analysis([own | {"baseline": "horovod np=2"}]))
    assert shown["Scaling efficiency"].detail.endswith("no baseline to compare with")


def test_a_second_cause_about_as_large_stands_in_the_tile_of_the_first():
    rival = "about as large as straggler (rank 3, data) (10.9 %)"
    said = verdict(biggest_loss="straggler (rank 1)", parts=VerdictParts(rival=rival))
    shown = by_title(analysis(verdict=said))["Largest cause"]
    assert shown.detail == f"straggler (rank 1), {rival}"


def cause(term: str, share: float, low: float, high: float) -> dict[str, Any]:
    key = {name: cell()[name] for name in CELL_KEY}
    ends = {"share": share, "share_low": low, "share_high": high}
    return key | {"term": term, "pattern": "", "ranks": "", "phase": ""} | ends


@pytest.mark.parametrize(
    ("transfer", "value", "detail"),
    [
        (
            (0.06, 0.01, 0.11),
            "6.0 % of the step",
            "exposed transfer; jitter, compute slowdown: larger, but uncertain",
        ),
        (
            (0.01, 0.0, 0.02),
            "none",
            "jitter, compute slowdown: uncertain, the 95 % CI includes 0",
        ),
    ],
)
def test_larger_causes_that_may_be_nothing_are_named_as_such(transfer, value, detail):
    rows = [
        cause(JITTER, 0.2, -0.06, 0.46),
        cause(EXPOSED_TRANSFER, *transfer),
        cause(COMPUTE_INFLATION, 0.23, -0.33, 0.78),
    ]
    finished = analysis(
        derived={"waterfall": declared_rows(WATERFALL, *rows)}, verdict=verdict(biggest_loss="")
    )
    shown = by_title(finished)["Largest cause"]
    assert (shown.value, shown.detail) == (value, detail)


def test_a_number_whose_interval_is_wider_than_it_is_not_shown_large():
    noisy = cell(
        efficiency=0.6,
        efficiency_low=0.29,
        efficiency_high=0.95,
        samples_per_s=100.0,
        samples_per_s_low=50.0,
        samples_per_s_high=180.0,
    )
    shown = by_title(analysis(), noisy)
    assert shown["Scaling efficiency"].value == "too noisy: 29 % to 95 %"
    assert shown["Throughput, samples/s"].value == "too noisy: 50.0 to 180"
