"""A script that begins the recording itself below `hvdprof run`, in a process of its own."""

import os
import subprocess
import sys

import pytest

from hvdprof.rundir.launch_format import AUTORECORD, AutoSettings
from tests.builders.places import ROOT
from tests.builders.recorded import of_kind, recorded, steps_of

SCRIPT = """
from hvdprof import collect
collect.start()
for i in range(100):
    with collect.step(samples=8):
        pass
    if {condition}:
        raise RuntimeError("on purpose")
"""


def run(folder, condition="False", **changes):
    settings = {
        "num_warmup_steps": 2,
        "num_steps": 3,
        "batch_size": None,
        "timeline": "",
        "num_timeline_steps": 5,
    }
    variables = {
        AUTORECORD: AutoSettings(**settings | changes).to_text(),
        "HVDPROF_RECORDER_DIR": str(folder / "recorder"),
        "PYTHONPATH": str(ROOT),
    }
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(condition=condition)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended, recorded(folder / "recorder" / "rank-0.jsonl")


def test_warmup_and_the_number_of_steps_hold(tmp_path):
    ended, lines = run(tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")
    steps = steps_of(lines, "main")
    assert [step["warmup"] for step in steps] == [True, True, False, False, False]
    assert {step["samples"] for step in steps} == {8}
    # The script never came to stop().
    assert lines[-1]["kind"] == "end"


def test_samples_that_the_user_gave_win(tmp_path):
    _, lines = run(tmp_path, batch_size=5)

    assert {step["samples"] for step in steps_of(lines, "main")} == {5}


def test_a_script_that_raises_leaves_an_open_segment(tmp_path):
    ended, lines = run(tmp_path, condition="i == 3")

    assert ended.returncode == 1
    assert len(steps_of(lines, "main")) == 4
    assert of_kind(lines, "segment_end") == []


def test_so_does_one_with_a_hook_of_its_own_for_what_it_raises(tmp_path):
    own = "__import__('sys').__setattr__('excepthook', lambda *_: print('reported')) or i == 3"
    ended, lines = run(tmp_path, condition=own)

    assert (ended.returncode, ended.stdout) == (1, "reported\n")
    assert len(steps_of(lines, "main")) == 4
    assert of_kind(lines, "segment_end") == []


@pytest.mark.parametrize("timeline", ["", "timeline/main.json"])
def test_a_timeline_is_asked_for_where_one_is_wanted(tmp_path, timeline):
    _, lines = run(tmp_path, timeline=timeline and str(tmp_path / timeline))

    # There is no Horovod here that could write one.
    problems = [line["message"] for line in of_kind(lines, "problem")]
    assert any("no timeline" in problem for problem in problems) == bool(timeline)
