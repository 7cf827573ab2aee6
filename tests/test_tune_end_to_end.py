"""`hvdprof tune`: real ranks of a job with a known bad setting."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hvdprof.rundir.manifest import Manifest
from tests.builders import user_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.torch]

TUNE = [sys.executable, "-m", "hvdprof", "tune"]
CYCLE = "HOROVOD_CYCLE_TIME"
RANKS = ("--np", "2", "--num-steps", "30")
CRASHING = """\
import os, runpy
if os.environ.get("CRASH"):
    raise SystemExit("no such algorithm")
import torch
runpy.run_path({script!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A cycle of 100 ms against steps of some ms; one more setting crashes."""
    folder = tmp_path_factory.mktemp("tune")
    script = folder / "train.py"
    script.write_text(CRASHING.format(script=user_script.__file__))
    ended = hvdprof(
        *("tune", *RANKS, "--repeats", "4", "--runs", str(folder / "tuning")),
        *("--only", "HOROVOD_CYCLE_TIME=1,CRASH", "--try", "CRASH=1"),
        *("--", sys.executable, str(script)),
        cwd=folder,
        HOROVOD_CYCLE_TIME="100",
    )
    return ended, folder / "tuning"


def test_the_bad_setting_is_found_and_its_remedy_stands_in_line_2(tuned):
    ended, _ = tuned
    assert ended.returncode == 0, ended.stderr
    first, second = ended.stdout.splitlines()[:2]
    assert first.startswith("Set HOROVOD_CYCLE_TIME=1: step time -")
    assert "95 % CI" in first and "throughput +" in first
    assert second.startswith("HOROVOD_CYCLE_TIME=1 hvdprof run --np 2 ")


def test_the_result_is_shown_again(tuned):
    ended, folder = tuned
    again = hvdprof("tune", str(folder), "--format", "json")
    assert again.returncode == 0, again.stderr
    content = json.loads(again.stdout)
    assert content["environment"] == {"HOROVOD_CYCLE_TIME": "1"}
    assert 0 < content["gain"]["low"] < content["gain"]["value"]
    assert content["status"] == "done"
    assert ended.stdout.startswith(content["sentence"])


def test_the_gain_was_predicted_before_it_was_measured(tuned):
    _, folder = tuned
    content = json.loads((folder / "tuning.json").read_text())
    trial = next(one for one in content["trials"] if one["candidate"]["environment"].get(CYCLE))
    predicted = trial["candidate"]["predicted"]
    assert predicted["low"] <= predicted["value"] <= predicted["high"]
    assert predicted["value"] > 0
    assert content["score"]["num_predicted"] == 1


def test_a_setting_that_crashes_is_an_outcome_with_its_cause(tuned):
    _, folder = tuned
    trials = json.loads((folder / "tuning.json").read_text())["trials"]
    by_name = {one["candidate"]["name"]: one for one in trials}
    assert by_name["HOROVOD_CYCLE_TIME=1"]["outcome"] == "confirmed"
    crashed = by_name["CRASH=1"]
    assert crashed["outcome"] == "failed"
    assert "no such algorithm" in crashed["reason"] or "exit" in crashed["reason"]


def test_launches_of_all_settings_are_neighbours_of_the_present_one(tuned):
    _, folder = tuned
    race = {path.name: Manifest.read(path) for path in (folder / "race").iterdir()}
    assert "present" in race
    assert len({one.paired_by for one in race.values()}) == 1
    present = sorted(one.repeat for one in race["present"].passes)
    assert present == list(range(1, len(present) + 1))
    assert {str(one.mode) for run in race.values() for one in run.passes} == {"throughput"}
    check = {path.name for path in (folder / "check").iterdir()}
    assert check == {"present", "01-best"}


def test_one_rank_ends_with_one_message(tmp_path):
    ended = hvdprof("tune", "--np", "1", "--", sys.executable, "train.py", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("hvdprof: Settings of communication have no effect on one rank.")


def test_an_interruption_leaves_a_result(tmp_path):
    script = str(Path(user_script.__file__))
    process = subprocess.Popen(
        [
            *(*TUNE, *RANKS, "--runs", str(tmp_path / "tuning"), "--try", "ABSENT=1"),
            *("--no-trace", "--only", "ABSENT", "--", sys.executable, script),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    began, manifest = time.monotonic(), tmp_path / "tuning" / "race" / "present" / "manifest.json"
    while not _has_a_result(manifest):
        if process.poll() is not None or time.monotonic() - began > 300:
            process.kill()
            pytest.fail(f"No launch of the race has a result: {process.communicate()}")
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 130, err
    assert f"The result so far: hvdprof tune {tmp_path / 'tuning'}" in err
    assert re.search(r"^hvdprof: Interrupted after \d+ of \d+ launches\.", err, re.MULTILINE)
    # The interrupted launch of the other setting may have steps enough for a result.
    known = ("Undecided: the tuning ended before", "Nothing is known: no round of the race ended.")
    assert out.startswith(known)
    assert json.loads((tmp_path / "tuning" / "tuning.json").read_text())["status"] == "interrupted"


def _has_a_result(manifest: Path) -> bool:
    if not manifest.exists():
        return False
    return any(one.status == "done" for one in Manifest.read(manifest.parent).passes)
