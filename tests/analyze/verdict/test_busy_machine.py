from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.analyze.verdict.busy_machine import WAIT, busy_sentences, wait_command
from hvdprof.analyze.verdict.limits import limit_results
from hvdprof.api import load_run
from hvdprof.launch.plan.options import MeasureOptions, declared
from hvdprof.model.limits import LimitOutcome
from hvdprof.model.run import RunAnalysis
from hvdprof.report.screen.tiles import tiles
from tests.builders.analysis import sweep
from tests.builders.recorder_lines import host_of
from tests.builders.run_directory import write_run

WIDE = (0.6, 1.0, 1.7)


def analysed(
    folder: Path, factors: tuple[float, ...], other_cpu_cores: float, num_cores: int = 2
) -> RunAnalysis:
    """Three launches per cell, whose step times differ by some factors."""
    passes = [
        replace(spec, other_cpu_cores=other_cpu_cores)
        for repeat, factor in enumerate(factors, start=1)
        for spec in sweep({0: 10.0, 2: 15.0 * factor}, blocked_ms={2: 6.0 * factor})
        if spec.repeat == repeat
    ]
    write_run(folder, passes, hosts=[host_of("node1", num_cores)])
    return analyze_run(load_run(folder))


@pytest.mark.heavy
def test_a_wide_interval_beside_other_work_is_no_answer_and_no_fix_is_proposed(
    tmp_path: Path,
) -> None:
    found = analysed(tmp_path, WIDE, 1.1)
    verdict = found.verdict
    assert (verdict.efficiency_high - verdict.efficiency_low) / 2 > 0.2
    assert verdict.is_too_busy
    assert verdict.sentence.startswith(
        "The machine is too busy to judge: other processes kept up to 1.1 of 2 cores busy. "
        "mnist on 2 ranks: "
    )
    assert verdict.sentence.endswith("Start when it is idle: hvdprof bench --wait-for-quiet 10m")
    assert "fix:" not in verdict.sentence
    assert not verdict.biggest_loss
    assert "Other processes" not in verdict.caveat
    shown = {tile.title: tile for tile in tiles(found)}
    assert shown["Potential efficiency"].detail == "the machine is too busy to judge"
    assert shown["Trust"].detail.endswith("measure on an idle one")
    of_cells = found.findings[found.findings["model"].astype(str) != ""]
    assert len(of_cells)
    for name in ("action", "fix", "command"):
        assert set(of_cells[name]) == {""}
    assert set(of_cells["confidence"]) == {"possible"}
    for limit in ("efficiency<99%", "exposed_communication>1%"):
        (result,) = limit_results(found, [limit])
        assert result.outcome is LimitOutcome.UNDECIDED
        assert result.sentence.endswith("mnist on 2 ranks: the machine is too busy to judge")


@pytest.mark.heavy
@pytest.mark.parametrize(("others", "is_too_busy"), [(0.5, True), (0.3, False)])
def test_one_launch_beside_other_work_is_enough_where_it_leaves_no_answer(
    tmp_path: Path, others: float, is_too_busy: bool
) -> None:
    passes = [
        replace(spec, other_cpu_cores=others if repeat == 3 and spec.size == 2 else 0.01)
        for repeat, factor in enumerate(WIDE, start=1)
        for spec in sweep({0: 10.0, 2: 15.0 * factor})
        if spec.repeat == repeat
    ]
    write_run(tmp_path, passes, hosts=[host_of("node1", 2)])
    verdict = analyze_run(load_run(tmp_path)).verdict
    assert verdict.is_too_busy == is_too_busy
    load = "kept up to 0.5 of 2 cores busy in 1 of 3 launches"
    assert (load in verdict.sentence) == is_too_busy


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("factors", "other_cores", "num_cores"),
    [
        # The answer stands in spite of the load.
        ((0.99, 1.0, 1.01), 1.1, 2),
        # It is wide by itself.
        (WIDE, 0.05, 2),
        # There are cores for both.
        (WIDE, 1.1, 64),
        # So small a load moves no efficiency by 40 points.
        (WIDE, 0.35, 2),
    ],
)
def test_else_the_job_is_judged(
    tmp_path: Path, factors: tuple[float, ...], other_cores: float, num_cores: int
) -> None:
    verdict = analysed(tmp_path, factors, other_cores, num_cores).verdict
    assert not verdict.is_too_busy
    assert "too busy" not in verdict.sentence


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("hvdprof bench --preset quick", "hvdprof bench --wait-for-quiet 10m --preset quick"),
        ("hvdprof bench -o runs/x --np 2", "hvdprof bench --wait-for-quiet 10m --np 2"),
        (
            "hvdprof run --np 1,2 --output x -- python a.py -o y",
            "hvdprof run --wait-for-quiet 10m --np 1,2 -- python a.py -o y",
        ),
        ("horovod.run train", ""),
        ("", ""),
    ],
)
def test_the_command_is_that_of_the_run_into_a_new_folder(
    tmp_path: Path, given: str, expected: str
) -> None:
    write_run(tmp_path, sweep({0: 10.0, 2: 15.0}))
    run = load_run(tmp_path)
    run.manifest.command = given.split()
    assert wait_command(run) == expected


def test_the_flag_is_the_one_of_the_command_line() -> None:
    assert WAIT in {flag for _, one in declared(MeasureOptions) for flag in one.flags}


@pytest.mark.heavy
def test_what_to_do_is_what_measured_the_run_can_do(tmp_path: Path) -> None:
    found = analysed(tmp_path, WIDE, 1.1)
    run, verdict = found.run, found.verdict
    (cell,) = (
        row
        for _, row in found.scaling.iterrows()
        if (row["model"], row["np"], row["engine"]) == (verdict.model, verdict.np, verdict.engine)
    )
    run.manifest.command = ["horovod.run", "train"]
    _, action = busy_sentences(run, cell) or ("", "")
    assert action == "Measure again when it is idle."
    run.manifest.settings["script"] = {"is_function": True}
    _, action = busy_sentences(run, cell) or ("", "")
    assert action == 'Start when it is idle: FunctionRunner(wait_for_idle="10m")'
