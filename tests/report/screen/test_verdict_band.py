"""The first card of a run: a plain sentence, its cost, and how to measure better."""

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.cause_names import place_of
from hvdprof.report.screen.tiles import verdict_cell
from hvdprof.report.screen.verdict_band import main_finding, repeated_command, verdict_band
from tests.builders.recorded_runs import unpacked


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    return analyze_run(load_run(unpacked("horovod-slow-data", tmp_path_factory.mktemp("late"))))


def test_the_band_names_rank_and_cost_and_how_to_measure_better(late):
    band = verdict_band(late, verdict_cell(late))
    assert band.sentence == "Rank 1 loads data too slowly."
    assert band.cost.startswith("user_script on 2 ranks. Costs 34.0 ms per step (85.7 %")
    assert (band.trust, band.tone) == ("Trust limited", "caution")
    assert main_finding(late)["title"] == "Straggler: rank 1, data phase"
    words = repeated_command(late).split()
    assert words[:2] == ["hvdprof", "run"]
    assert words.index("--repeats") < words.index("--")
    assert words[words.index("--") + 1] == "python"


def test_more_repeats_are_proposed_only_where_they_help(late):
    cell = verdict_cell(late)
    assert "--repeats 6" in verdict_band(late, cell).command
    crowded = verdict_band(late, {**cell, "oversubscribed": True})
    assert (crowded.reason, crowded.command) == ("more ranks than cores or GPUs", "")


def test_the_band_names_the_line_of_code_behind_the_cause(tmp_path):
    analysis = analyze_run(load_run(unpacked("ddp-code-lines", tmp_path)))
    (place,) = [
        place_of(row)
        for row in analysis.table("line_causes").to_dict("records")
        if row["cause_id"] == analysis.verdict.parts.cause_id
    ][:1]
    assert f". At {place}." in verdict_band(analysis, verdict_cell(analysis)).cost


def test_a_stall_is_the_sentence_and_no_loss_beside_it_is_its_cost(tmp_path):
    analysis = analyze_run(load_run(unpacked("ddp-hang", tmp_path)))
    band = verdict_band(analysis, verdict_cell(analysis))
    assert band.sentence == analysis.verdict.parts.lead
    assert main_finding(analysis)["title"] == "Stalled tensors"
    assert band.cost.count("samples/s") == 1
    assert "without it" not in band.cost
    assert band.edge == "bad"


def test_the_main_finding_is_the_sentence_and_its_numbers_stand_below_with_their_doubts(tmp_path):
    analysis = analyze_run(load_run(unpacked("horovod-sweep", tmp_path)))
    band = verdict_band(analysis, verdict_cell(analysis))
    assert band.sentence == f"Largest loss: {main_finding(analysis)['title']}."
    # An interval wider than the value is not stated beside a number of the headline.
    assert "18 % (3 to 88)" in analysis.verdict.headline
    assert "Efficiency too noisy: 3 % to 88 %" in band.cost
