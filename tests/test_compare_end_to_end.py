"""`hvdprof compare --run`: real ranks of two variants, by turns."""

import json
import sys
from pathlib import Path

import pytest

from hvdprof.rundir.manifest import Manifest
from tests.builders import user_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.torch]

SCRIPT = [sys.executable, str(Path(user_script.__file__))]
STEADY = ("--step-ms", "60")
COMPARE = ("compare", "--run", "--np", "2", "--no-trace")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A variant of which rank 1 sleeps in its forward phase, against the same script without.

    A step of the script alone is a few ms of a core, which vary beside other load: then three pairs
    do not prove that a rank is slow. So all ranks sleep in each step.
    """
    folder = tmp_path_factory.mktemp("compare")
    ended = hvdprof(
        *(*COMPARE, "--repeats", "3", "--num-steps", "30", "--runs", str(folder / "pair")),
        *("--format", "json", "--fail-on", "step_time>5%", "--", *SCRIPT, *STEADY),
        *("--against", "--", *SCRIPT, *STEADY, "--slow", "forward", "--slow-ms", "100"),
        cwd=folder,
    )
    return ended, folder / "pair"


def test_the_slower_variant_is_named_with_its_cause_and_fails_the_gate(compared):
    ended, _ = compared
    assert ended.returncode == 20, ended.stderr
    content = json.loads(ended.stdout)
    assert content["outcome"] == "regressed"
    assert content["sentence"].startswith("REGRESSED: user_script on 2 ranks: step time +")
    # Beside much other load, 3 pairs may not prove it: then its row is that of a straggler.
    largest = content["causes"][0]
    assert (largest["ranks"], largest["phase"]) == ("1", "forward")
    assert largest["difference_ns"] > 15e6
    if largest["moved"]:
        assert "rank 1" in content["sentence"].lower()
    assert "The gate failed: step_time>5% by user_script on 2 ranks." in ended.stderr


def test_launches_of_both_are_pairs_of_neighbours(compared):
    ended, folder = compared
    cells = json.loads(ended.stdout)["cells"]
    assert all(row["paired"] for row in cells if row["metric"] == "step_time")
    manifests = [Manifest.read(folder / name) for name in ("a", "b")]
    assert manifests[0].paired_by and manifests[0].paired_by == manifests[1].paired_by
    starts = sorted(
        (record.started_at, name)
        for name, manifest in zip("ab", manifests, strict=True)
        for record in manifest.passes
    )
    assert "".join(name for _, name in starts) == "abbaab"


def test_stored_runs_of_a_pair_are_compared_as_pairs_again(compared):
    _, folder = compared
    ended = hvdprof("compare", str(folder / "a"), str(folder / "b"))
    assert ended.returncode == 0, ended.stderr
    assert "3 pairs" in ended.stdout
    assert "Measured one after the other" not in ended.stdout


def test_a_variant_that_crashes_is_an_outcome_and_the_other_is_preserved(tmp_path):
    ended = hvdprof(
        *(*COMPARE, "--repeats", "1", "--num-steps", "20", "--runs", str(tmp_path / "pair")),
        *("--", *SCRIPT, "--against", "--", sys.executable, "-c", "raise SystemExit(3)"),
        cwd=tmp_path,
    )
    assert ended.returncode not in (0, 20), ended.stdout
    assert "Traceback" not in ended.stderr
    assert str(Manifest.read(tmp_path / "pair" / "a").status) == "done"
    assert str(Manifest.read(tmp_path / "pair" / "b").status) == "failed"
    assert "failed" in ended.stderr
