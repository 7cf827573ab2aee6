"""`hvdprof inject` as users call it."""

import subprocess
import sys

import pytest

from tests.builders.running_command import hvdprof

pytestmark = pytest.mark.slow


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
