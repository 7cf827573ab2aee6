""""""

import dataclasses

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.cause_names import place_of
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.report.screen.open_points import (
    main_finding,
    open_points,
    repeated_command,
    verdict_band,
)
from hvdprof.report.screen.tiles import verdict_cell
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_settings
from tests.builders.analysis import analysis_of, with_a_straggler
from tests.builders.finished_analysis import analysis, cell, finding, manifest, run, torch_cell
from tests.builders.recorded_runs import unpacked


def low(**values):
    own = cell(efficiency=0.65, efficiency_low=0.6, efficiency_high=0.7)
    return analysis([torch_cell(), own], **values)


def test_a_low_efficiency_without_a_finding_says_what_is_known_and_what_is_next():
    points = open_points(low())
    assert points.title == "65.0 % efficiency without a finding"
    assert points.known == (
        "The cell loses 35.0 points against torch np=1.",
        "Ranks are blocked for 11.3 % of the step.",
    )
    assert points.command == "hvdprof bench --preset quick --repeats 6"


def test_the_command_is_that_of_the_run_with_more_repeats():
    own = ["hvdprof", "bench", "--np", "1,2", "--repeats", "3", "-o", "a", "--model", "my net"]
    points = open_points(low(run=run(manifest=manifest(command=own))))
    assert points.command == "hvdprof bench --np 1,2 --model 'my net' --repeats 6"


def test_of_attached_files_the_script_is_to_be_measured():
    files = (AttachedFile(kind=AttachedKind.OUTPUT, given="a", copy="a", rank=None),)
    points = open_points(
        low(run=run(manifest=manifest(command=[], settings=attached_settings(files))))
    )
    assert points.command == "hvdprof run --np 2 --repeats 6 -- python train.py"


def test_nothing_is_open_where_the_cell_scales_or_has_a_finding():
    assert open_points(analysis([torch_cell(), cell(efficiency=0.95)])) is None
    of_cell = finding(model="resnet18", np=2, engine="horovod", cost_share=0.2)
    assert open_points(low(findings=FINDINGS.frame([of_cell]))) is None
    elsewhere = finding(model="mnist", np=2, engine="horovod", cost_share=0.2)
    assert open_points(low(findings=FINDINGS.frame([elsewhere]))) is not None


def test_nothing_is_open_where_the_machine_was_too_busy_to_judge():
    finished = low()
    busy = dataclasses.replace(finished.verdict, is_too_busy=True)
    assert open_points(dataclasses.replace(finished, verdict=busy)) is None


@pytest.mark.heavy
def test_a_rank_that_is_often_last_is_suspected(tmp_path):
    finished = analysis_of(tmp_path / "run", with_a_straggler())
    points = open_points(dataclasses.replace(finished, findings=FINDINGS.empty()))
    assert "Straggler: rank 1, forward phase: 23.1 % (" in " ".join(points.known)
    assert points.suspected == (
        "Rank 1 is the last to arrive in 100 % of the steps.",
        "Rank 1 is slower by 3.0 ms in forward (23 % of the mean step). Its delays cost 3.00 ms "
        "per step (23.1 %).",
    )


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
