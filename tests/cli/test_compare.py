import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hvdprof import api
from hvdprof.cli.main import build_app
from hvdprof.errors import (
    InconclusiveError,
    InterruptedRunError,
    NotComparableError,
    RegressedError,
    StorageError,
    UnreadableInputError,
    UsageError,
)
from tests.builders.analysis import sweep
from tests.builders.run_directory import write_run


@pytest.fixture
def slower(tmp_path):
    """Two runs of which the second takes 10 % longer."""
    return [
        write_run(tmp_path / name, sweep({1: 10.0, 2: step_ms}))
        for name, step_ms in (("before", 12.0), ("after", 13.2))
    ]


def invoke(*arguments):
    result = CliRunner().invoke(build_app(), ["compare", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.heavy
def test_it_prints_the_verdict_first_and_ends_well_without_a_gate(slower):
    result = invoke(*slower)
    assert result.stdout.startswith("REGRESSED: mnist on 2 ranks: step time +10.0 %")
    assert result.exit_code == 0


@pytest.mark.slow
def test_a_condition_that_fails_is_exit_code_20_after_the_report(slower):
    with pytest.raises(RegressedError, match="step_time>5% by mnist on 2 ranks") as error:
        invoke(*slower, "--fail-on", "step_time>5%")
    assert error.value.exit_code == 20


@pytest.mark.slow
def test_a_condition_that_holds_passes(slower):
    assert invoke(*slower, "--fail-on", "step_time>20%").exit_code == 0


@pytest.mark.slow
def test_an_undecided_gate_fails_unless_that_is_allowed(slower):
    undecided = ("--fail-on", "step_time>10%")
    with pytest.raises(InconclusiveError, match=r"^Inconclusive: step_time>10%\.") as error:
        invoke(*slower, *undecided)
    assert error.value.exit_code == 21
    with pytest.raises(InconclusiveError):
        invoke(*slower, *undecided, "--fail-on", "inconclusive")
    assert invoke(*slower, *undecided, "--allow-inconclusive").exit_code == 0


@pytest.mark.slow
def test_one_run_on_both_sides_is_refused(slower, tmp_path):
    (tmp_path / "link").symlink_to(slower[0])
    for other in (slower[0], tmp_path / "link"):
        with pytest.raises(UsageError, match="is on both sides"):
            invoke(slower[0], other)


@pytest.mark.slow
def test_runs_that_are_not_comparable_are_exit_code_22(slower, tmp_path):
    other = write_run(tmp_path / "other", sweep({2: 12.0}), versions={"torch": "9"})
    with pytest.raises(NotComparableError) as error:
        invoke(slower[0], other)
    assert error.value.exit_code == 22
    assert invoke(slower[0], other, "--force").exit_code == 0


@pytest.mark.slow
def test_a_file_is_written_whole_and_not_over_another(slower, tmp_path):
    output = tmp_path / "gate.json"
    invoke(*slower, "-o", output)
    assert json.loads(output.read_text())["outcome"] == "regressed"
    with pytest.raises(StorageError, match="exists"):
        invoke(*slower, "-o", output)
    invoke(*slower, "-o", output, "--force")


@pytest.mark.heavy
def test_a_margin_that_is_no_percentage_is_refused(slower):
    with pytest.raises(UsageError, match="--margin 'two'"):
        invoke(*slower, "--margin", "two")


@pytest.mark.heavy
def test_a_run_that_is_not_there_is_said_with_what_is_near(slower):
    before, after = slower
    with pytest.raises(UnreadableInputError, match=r"afte does not exist\.$") as error:
        invoke(before, after.with_name("afte"))
    assert "after" in error.value.hint


@pytest.mark.heavy
def test_a_timeline_is_refused_with_how_it_is_compared(slower, tmp_path):
    timeline = tmp_path / "timeline.json"
    timeline.write_text(
        '[\n{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "g"}},\n'
    )
    with pytest.raises(UnreadableInputError, match=r"holds no table") as error:
        invoke(slower[0], timeline)
    assert "`hvdprof attach` makes a run directory of timelines" in error.value.hint


@pytest.mark.heavy
def test_a_condition_on_what_neither_run_has_is_no_silent_pass(tmp_path):
    runs = [write_run(tmp_path / name, sweep({2: 12.0})) for name in ("a", "b")]
    with pytest.raises(NotComparableError, match="no cell of both runs has scaling efficiency"):
        invoke(*runs, "--fail-on", "efficiency<-2pt")


@pytest.mark.slow
def test_an_interruption_is_said_first_with_its_launches(slower, tmp_path, monkeypatch):
    class Interrupted:
        def __init__(self, options, **_):
            self.folder = tmp_path
            self.variants = [
                SimpleNamespace(folder=folder, wait_for_idle=lambda on_look: 0.0)
                for folder in slower
            ]

        def measure(self):
            raise InterruptedRunError("Interrupted after 3 of 12 launches. Ended by SIGINT.")

        def compare(self):
            return api.compare(*slower)

    monkeypatch.setattr(api, "PairedMeasurement", Interrupted)
    ended = CliRunner().invoke(
        build_app(), ["compare", "--run", "-q", "--env-a", "A=1", "--", "python", "a.py"]
    )

    assert ended.stderr == (
        "hvdprof: Interrupted after 3 of 12 launches. Ended by SIGINT. The result so far:\n"
    )
    assert ended.stdout.startswith("REGRESSED: ")
    assert isinstance(ended.exception, InterruptedRunError)
    # What ended the command is said once.
    assert ended.exception.message == "Interrupted: the result above is incomplete."
    assert ended.exception.hint == f"What was measured is in {tmp_path}."
