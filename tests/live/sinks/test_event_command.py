"""The command for each event: what it gets, and what happens where it fails."""

import json
import math
import os
import sys
import time

import pytest

from hvdprof.errors import UsageError
from hvdprof.live.sinks.event_command import EventCommand, event_json
from tests.builders.processes import is_running
from tests.builders.watched_job import HOSTILE, event, snapshot


def _script(tmp_path, text: str) -> str:
    path = tmp_path / "command.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_event_comes_as_json_on_standard_input(tmp_path):
    script = _script(tmp_path, 'cat > "$1"')
    sink = EventCommand(f"{script} '{tmp_path}/a b.json'")
    sink.show(snapshot())
    sink.report(event())
    text = (tmp_path / "a b.json").read_text()
    assert text.count("\n") == 1
    assert json.loads(text) == {
        "job": "resnet",
        "number": 1,
        "kind": "straggler",
        "state": "begun",
        "time_s": 1_795_800_000.0,
        "since_s": 1_795_799_970.0,
        "segment": "0",
        "step": 118,
        "ranks": [3],
        "host": "node1",
        "phase": "data",
        "cost_s": 0.02,
        "step_s": 0.1,
        "place": "transforms.py:41",
        "text": "straggler: rank 3 on node1, data phase, 20.0 ms per step",
        "share": 0.0,
        "files": [],
    }


def test_the_json_of_a_hostile_event_is_one_strict_line():
    text = event_json(event(host=HOSTILE, cost_s=math.nan), "")
    assert json.loads(text)["cost_s"] is None
    assert text.isascii()
    assert text.index("\n") == len(text) - 1


def test_no_shell_reads_names_of_the_job(tmp_path):
    sink = EventCommand(_script(tmp_path, "cat > /dev/null"))
    sink.report(event(host="$(touch owned)", text="; touch owned"))
    assert not (tmp_path / "owned").exists()


def test_a_failing_command_says_why(tmp_path):
    sink = EventCommand(_script(tmp_path, "echo no such channel >&2; exit 3"))
    with pytest.raises(RuntimeError, match=r"^exit code 3: no such channel$"):
        sink.report(event())


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path):
    sink = EventCommand(
        _script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; wait"), command_s=0.5
    )
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"^it took longer than 0\.5 s and was ended$"):
        sink.report(event())
    assert time.monotonic() - began < 10
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(child)


def test_what_a_command_leaves_behind_holds_nothing_up(tmp_path):
    sink = EventCommand(_script(tmp_path, f"sleep 20 & echo $! > {tmp_path}/pid"))
    began = time.monotonic()
    sink.report(event())
    assert time.monotonic() - began < 10
    os.kill(int((tmp_path / "pid").read_text()), 9)


@pytest.mark.parametrize("command", ["no-such-program --x", "", "   ", "'open"])
def test_a_command_that_cannot_be_started_is_refused(command: str):
    with pytest.raises(UsageError, match="--on-event"):
        EventCommand(command)


def test_messages_do_not_show_arguments():
    name = EventCommand(f"{sys.executable} --token s3cret").name
    assert "s3cret" not in name
