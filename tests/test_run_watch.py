"""`hvdprof run --watch` names a slow rank of a real job while it runs."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.arrays import FrameRow
from tests.builders import late_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(600)]


@pytest.mark.ran(
    "`hvdprof run --watch` of a DDP script",
    "torch 2.13 with Gloo",
    "one host, 2 ranks",
)
def test_a_slow_rank_is_named_while_the_job_runs(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    own = ("--np", "2", "--launcher", "torchrun", "--no-trace", "--no-net", "--light", "--watch")
    script = ("--", "python", str(late_script.__file__), "55", "profiled")
    ended = hvdprof("run", "-q", "-o", str(folder), *own, "--profile-on-event", *script)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " straggler begun " in ended.stderr
    assert "Rank 1" in ended.stderr
    assert "Seen while the job ran" in ended.stdout
    events = analyze_run(load_run(folder)).table("live_events")
    named = events[events["event"] == "straggler"]
    assert named["rank"].tolist() == [1]
    assert set(named["outcome"]) <= {"confirmed", ""}
    assert not list(folder.glob("passes/*/recorder/watched"))
    _check_answers(folder, named.iloc[0].to_dict(), ended.stderr)


def _check_answers(folder: Path, named: FrameRow, printed: str) -> None:
    """The named rank was sampled, and with the other one profiled in steps that do not count."""
    answers = ["event-0-rank-1.jsonl", "event-0-rank-1.stack"]
    traces = [f"event-0-rank-{rank}.pt.trace.json.gz" for rank in (0, 1)]
    assert sorted(str(named["files"]).split(", ")) == sorted([*answers, *traces])
    assert "late_script.py" in str(named["place"])
    assert 0.5 < float(str(named["share"])) <= 1
    assert printed.count(" straggler sampled: ") == printed.count(" straggler profiled: ") == 1
    (recorder,) = folder.glob("passes/*/recorder")
    stacks = (recorder / answers[1]).read_text()
    assert stacks.count("Stacks at ") == 2
    assert "late_script.py" in stacks
    profiled = load_run([str(recorder / name) for name in traces]).table("steps")
    assert profiled.groupby("rank", observed=True).size().to_dict() == {0: 3, 1: 3}
    steps = load_run(folder).table("steps")
    late = steps[steps["warmup"] & (steps["step"] > 20)].groupby("rank", observed=True)["step"]
    numbers = {rank: sorted(own) for rank, own in late}
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 4
