"""The three lines in a script of two real ranks, for each way of using Horovod's optimizer."""

import json
import sys

import pytest

from tests.builders.places import ROOT
from tests.builders.recorded import blocked_ns, of_kind, phase_ns, recorded, steps_of
from tests.builders.training_job import Ended, mpirun, run_ranks

pytestmark = [pytest.mark.horovod, pytest.mark.warm]

SCRIPT = str(ROOT / "tests" / "builders" / "small_training.py")
OWN_COMPRESSION = ("clip", "groups")


def train(kind: str, folder, **environment: str) -> Ended:
    timeline = str(folder / "timeline" / "main.json")
    ended = run_ranks(
        [*mpirun(2), sys.executable, SCRIPT, kind, timeline],
        folder,
        HOROVOD_TIMELINE="DYNAMIC",
        **environment,
    )
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.count("trained") == 2
    return ended


def names_in_timeline(ended: Ended) -> set[str]:
    events = json.loads(ended.paths.timeline("main").read_text())
    names = {event["args"].get("name") for event in events if event.get("name") == "process_name"}
    return {name for name in names if name and "allreduce" in name}


@pytest.mark.parametrize("kind", ["plain", "groups", "clip", "accumulate"])
def test_names_ready_times_and_blocked_time(tmp_path, kind):
    ended = train(kind, tmp_path)
    for rank in (0, 1):
        lines = recorded(ended.paths.recorder_file(rank))
        assert of_kind(lines, "problem") == []
        (declared,) = of_kind(lines, "segment")
        assert {tensor["name"] for tensor in declared["tensors"]} == names_in_timeline(ended)
        halves = [tensor["size_bytes"] // 2 for tensor in declared["tensors"]]
        sent = [tensor["sent_bytes"] for tensor in declared["tensors"]]
        (ended_segment,) = of_kind(lines, "segment_end")
        if kind in OWN_COMPRESSION:
            # Known by what the first step submitted.
            assert sent == [2 * half for half in halves]
            sent = ended_segment["sent_bytes"]
        else:
            assert "sent_bytes" not in ended_segment
        assert sent == halves
        steps = steps_of(lines, "main")
        assert len(steps) == 4
        for step in steps:
            assert -1 not in step["ready"]
            assert len(step["blocked"]) == 1
            assert 0 < blocked_ns(step) < phase_ns(step, "optimizer")
            # Gradients are ready before the rank starts to wait for them.
            assert max(step["ready"]) <= step["blocked"][0][0]


def test_rank_that_cannot_record_still_takes_its_turns(tmp_path):
    folder = tmp_path / "recorder"
    folder.mkdir()
    (folder / "rank-1.jsonl").write_text("in the way\n")
    ended = train("plain", tmp_path, HVDPROF_CLOCK_EXCHANGE="always")
    assert ended.stderr.count("nothing is recorded: FileExistsError") == 1
    lines = recorded(folder / "rank-0.jsonl")
    assert [one["when"] for one in of_kind(lines, "clock")] == ["start", "end"]
    assert of_kind(lines, "problem") == []


def test_rank_without_the_variable_does_not_hold_the_others_up(tmp_path):
    ended = train("unequal", tmp_path, HVDPROF_CLOCK_EXCHANGE="always")
    lines = recorded(ended.paths.recorder_file(0))
    problems = [line["message"] for line in of_kind(lines, "problem")]
    assert "not all ranks took part within 1 s" in problems[0]
    assert of_kind(lines, "clock") == []
    assert len(steps_of(lines, "main")) == 4
    assert not ended.paths.recorder_file(1).exists()
