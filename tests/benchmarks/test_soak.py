"""How the ends of launches are counted; no launch is made."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import soak
from hvdprof.collect.session_factory import RECORDER_DIR
from hvdprof.rundir.launch_format import AUTORECORD, FLIGHT_FOLDER

TORCHRUN = "Root Cause (first observed failure):\n  exitcode  : -6 (pid: 12)\n"


class Launched:
    """In place of ``subprocess.run``: leaves the files of a launch, and ends it."""

    def __init__(self, code=0, stderr="", *, last="end", num_dumps=2):
        self.code, self.stderr, self.last, self.num_dumps = code, stderr, last, num_dumps
        self.environments = []

    def __call__(self, command, *, env, **_options):
        self.environments.append(env)
        if RECORDER_DIR in env:
            for rank in range(soak.NUM_RANKS):
                lines = [{"kind": "header"}, {"kind": self.last}]
                path = Path(env[RECORDER_DIR]) / f"rank-{rank}.jsonl"
                path.write_text("".join(json.dumps(one) + "\n" for one in lines))
            flight = Path(env[FLIGHT_FOLDER])
            flight.mkdir()
            for rank in range(self.num_dumps):
                (flight / f"rank-{rank}.json").touch()
        return subprocess.CompletedProcess(command, self.code, "", self.stderr)


def end_of(monkeypatch, tmp_path, launched, *, is_bare=False):
    monkeypatch.setattr(subprocess, "run", launched)
    return soak.launch(tmp_path, is_bare=is_bare)


@pytest.mark.parametrize(
    ("launched", "end"),
    [
        (Launched(), "done"),
        (Launched(1, TORCHRUN), "signal 6"),
        (Launched(1, "Traceback"), "exit code 1"),
        (Launched(last="step"), "incomplete recording"),
        (Launched(num_dumps=1), "no Flight Recorder file"),
    ],
)
def test_the_end_of_a_launch(monkeypatch, tmp_path, launched, end):
    assert end_of(monkeypatch, tmp_path, launched) == end
    assert launched.environments[0]["TORCH_FR_BUFFER_SIZE"] == "2000"


def test_a_bare_launch_has_no_recorder(monkeypatch, tmp_path):
    launched = Launched()

    assert end_of(monkeypatch, tmp_path, launched, is_bare=True) == "done"
    assert AUTORECORD not in launched.environments[0]


def test_bad_ends_are_counted_and_fail_the_command(monkeypatch, capsys):
    ends = iter(["done", "signal 6", "done"])
    monkeypatch.setattr(soak, "launch", lambda folder, *, is_bare: next(ends))
    monkeypatch.setattr(sys, "argv", ["soak", "--launches", "3"])

    assert soak.main() == 1

    printed = capsys.readouterr().out
    assert "1 of 3 launches ended badly: {'done': 2, 'signal 6': 1}" in printed
    assert "confidence" not in printed
