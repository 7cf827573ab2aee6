"""`hvdprof run --watch` names a slow rank of a real job while it runs."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from tests.builders import late_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(600)]


def test_a_slow_rank_is_named_while_the_job_runs(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    own = ("--np", "2", "--launcher", "torchrun", "--no-trace", "--no-net", "--light", "--watch")
    script = ("--", "python", str(late_script.__file__), "38")
    ended = hvdprof("run", "-q", "-o", str(folder), *own, *script)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " straggler begun " in ended.stderr
    assert "Rank 1" in ended.stderr
    assert "Seen while the job ran" in ended.stdout
    events = analyze_run(load_run(folder)).table("live_events")
    named = events[events["event"] == "straggler"]
    assert named["rank"].tolist() == [1]
    assert set(named["outcome"]) <= {"confirmed", ""}
    assert not list(folder.glob("passes/*/recorder/watched"))
