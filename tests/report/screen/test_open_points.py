import dataclasses

import pytest

from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.report.screen.open_points import open_points
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_settings
from tests.builders.analysis import analysis_of, with_a_straggler
from tests.builders.finished_analysis import analysis, cell, finding, manifest, run, torch_cell


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
