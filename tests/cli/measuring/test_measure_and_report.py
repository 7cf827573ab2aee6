from types import SimpleNamespace

import pytest

from hvdprof.api.cached_analysis import SWITCH
from hvdprof.cli.analyze import analyze
from hvdprof.cli.measuring.measure_and_report import measure_and_report
from hvdprof.errors import InterruptedRunError, SweepIncompleteError
from hvdprof.report.formats import reporter_for
from hvdprof.rundir.manifest import Manifest
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run


@pytest.mark.parametrize(
    ("failure", "first"),
    [
        (
            InterruptedRunError("Interrupted after 1 of 8 launches. Ended by SIGINT."),
            "hvdprof: Interrupted after 1 of 8 launches. Ended by SIGINT. The result so far:\n",
        ),
        (SweepIncompleteError("1 of 8 measurements failed."), ""),
    ],
)
def test_an_interruption_is_said_before_the_result(tmp_path, capsys, failure, first):
    def run_launches():
        raise failure

    def render(analysis, stream):
        # What has been said until here.
        stream.write(capsys.readouterr().err)

    folder = write_run(tmp_path / "run", [PassSpec()])
    measurement = SimpleNamespace(ready_hosts=list, run_launches=run_launches, folder=folder)
    with pytest.raises(type(failure)):
        measure_and_report(measurement, SimpleNamespace(render=render))
    assert capsys.readouterr().out == first


def test_a_launch_without_a_step_after_warm_up_is_no_result(tmp_path):
    folder = write_run(tmp_path / "run", [PassSpec(segments=[SegmentSpec(num_steps=0)])])
    measurement = SimpleNamespace(
        ready_hosts=list, run_launches=list, folder=folder, manifest=Manifest.read(folder)
    )
    with pytest.raises(SweepIncompleteError) as ended:
        measure_and_report(measurement, SimpleNamespace(render=lambda *_: None))
    assert ended.value.message == (
        "No throughput was measured: 1 launch ended without a recorded step after warm-up. "
        "Train longer, or lower --num-warmup-batches."
    )


def test_an_interrupted_run_ends_in_the_words_of_its_report(tmp_path):
    def run_launches():
        raise InterruptedRunError("Interrupted after 1 of 2 launches.", hint="Resume with it")

    shown = []
    passes = [PassSpec(), PassSpec(status="planned", segments=[SegmentSpec(status="planned")])]
    folder = write_run(tmp_path / "run", passes, status="interrupted")
    measurement = SimpleNamespace(ready_hosts=list, run_launches=run_launches, folder=folder)
    with pytest.raises(InterruptedRunError) as ended:
        measure_and_report(
            measurement,
            SimpleNamespace(render=lambda analysis, stream: shown.extend(analysis.warnings)),
        )
    assert ended.value.message in shown
    assert ended.value.message.endswith(f"Resume with `hvdprof bench --resume {folder}`.")
    assert ended.value.hint == ""


@pytest.mark.parametrize("is_read_only", [False, True])
def test_the_next_analyze_prints_the_result_without_the_run(
    tmp_path, capsys, monkeypatch, is_read_only
):
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    monkeypatch.delenv(SWITCH)
    folder = write_run(tmp_path / "run", [PassSpec(), PassSpec(size=2)])
    if is_read_only:
        folder.chmod(0o555)
    measurement = SimpleNamespace(
        ready_hosts=list, run_launches=list, folder=folder, manifest=Manifest.read(folder)
    )
    measure_and_report(measurement, reporter_for("terminal"))
    printed = capsys.readouterr()
    monkeypatch.setattr("hvdprof.api.analyze_run", None)
    analyze([folder])
    assert capsys.readouterr() == (printed.out, "")
    assert printed.out.count("\n") > 10
