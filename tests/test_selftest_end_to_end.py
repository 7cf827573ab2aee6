"""Real launches with injected faults: the self-test finds them, and says so."""

import json
from pathlib import Path

import pytest

from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(600)]


def test_the_first_faults_are_found_within_the_limit(tmp_path: Path) -> None:
    # The limit leaves time for the first launches alone: the others are said to be open.
    options = ("--controller", "gloo", "--limit", "12s", "--output", str(tmp_path / "runs"))
    done = hvdprof("selftest", *options, "--format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["passed"]) == (6, True), done.stderr
    first, *others = result["cases"]
    assert first["outcome"] == "found"
    assert (first["named"][0]["rank"], first["named"][0]["phase"]) == (1, "backward")
    assert others[-1]["outcome"] == "not run"
    assert result["recorder"] is not None, result["not_measured"]
    assert 0 < result["recorder"]["direct_ns"] < 0.05 * result["recorder"]["step_ns"]
    assert "about 1 min 25 s; no launch starts after 12 s" in done.stderr
    assert list((tmp_path / "runs" / "01").glob("passes/*/recorder/rank-1.jsonl"))
