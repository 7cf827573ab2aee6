"""Exit codes and output of the command; launches are stand-ins."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from hvdprof import api
from hvdprof.cli.main import build_app
from hvdprof.errors import SelftestFailedError, SweepIncompleteError
from tests.builders.running_command import hvdprof
from tests.report.answers.test_selftest import DONE, FOUND, MISSED, OPEN


def inject(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return hvdprof("inject", *arguments)


def test_the_command_gets_the_faults_and_its_exit_code_is_returned():
    code = "import os; print(os.environ['HVDPROF_FAULTS']); raise SystemExit(9)"
    first, second = "pause:amount=5%", "sleep:phase=data,rank=1,amount=1ms"
    done = inject("--fault", first, "--fault", second, "--", sys.executable, "-c", code)
    assert done.returncode == 9
    assert done.stdout == f"{first};{second}\n"
    assert f"injecting {first}" in done.stderr


def test_a_mistake_starts_nothing():
    done = inject("--fault", "crash:amount=5%", "--", sys.executable, "-c", "print('started')")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no kind of fault" in done.stderr


def test_a_missing_program_is_one_message():
    done = inject("--fault", "pause:amount=5%", "--", "no-such-program-here")
    assert done.returncode == 5
    assert "Traceback" not in done.stderr


pytestmark = pytest.mark.slow


def invoke(monkeypatch: pytest.MonkeyPatch, *cases: Any, options: tuple[str, ...] = ()) -> Any:
    class Measurement:
        def __init__(self, options: Any) -> None:
            self.cases, self.num_ranks = cases, options.np or 2
            self.estimate_s, self.limit_s = 85.0, 300.0

        def measure(self, on_result: Any) -> Any:
            for one in cases:
                on_result(one)
            return replace(DONE, cases=cases)

    monkeypatch.setattr(api, "SelftestMeasurement", Measurement, raising=False)
    return CliRunner().invoke(build_app(["selftest"]), ["selftest", *options])


def test_estimate_and_progress_come_first_and_zero_says_that_all_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = invoke(monkeypatch, FOUND)
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "hvdprof: 1 launch of 2 ranks, about 1 min 25 s; no launch starts after 5 min",
        "  1/1 12 ms in backward: found",
    ]
    assert done.stdout.startswith("1 of 1 launches are judged correctly.")
    silent = invoke(monkeypatch, FOUND, options=("--quiet", "--format", "json"))
    assert (silent.stderr, json.loads(silent.stdout)["passed"]) == ("", True)


def test_a_wrong_result_is_code_23_and_an_open_one_code_6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = invoke(monkeypatch, FOUND, MISSED, OPEN)
    assert isinstance(wrong.exception, SelftestFailedError)
    assert wrong.exception.exit_code == 23
    assert "judged correctly" in wrong.stdout
    unknown = invoke(monkeypatch, FOUND, OPEN)
    assert isinstance(unknown.exception, SweepIncompleteError)
