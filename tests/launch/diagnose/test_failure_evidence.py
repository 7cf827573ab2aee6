import json
import socket
from pathlib import Path

import pytest

from hvdprof.launch.diagnose import failure_evidence
from hvdprof.launch.diagnose.failure_evidence import MemoryWatch, fail_without_timeline, with_place
from hvdprof.launch.diagnose.rank_progress import PassProgress, RankState
from hvdprof.rundir.failures.launcher_failures import Failure
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, SegmentRecord, Status
from hvdprof.rundir.plan import Segment
from tests.builders.run_spec import SegmentSpec

OPENING = (
    "[0]<stderr>:[2026-11-21 12:31:10.4: E timeline.cc:124] Error opening the Horovod Timeline "
    "file /r/main.json, will not write a timeline."
)


def progress(folder: Path, hosts: dict[int, str]) -> PassProgress:
    made = PassProgress(PassPaths(folder))
    made.ranks = {
        rank: RankState(rank, header={"host": {"hostname": host}}) for rank, host in hosts.items()
    }
    return made


HERE = socket.gethostname()
KILLED = Failure(reason="rank 1 was ended by SIGKILL", rank=1, signal="SIGKILL")


@pytest.mark.parametrize(
    ("failure", "host"),
    [(KILLED, "node2"), (Failure(reason="?", rank=7), None), (Failure(reason="?"), None)],
)
def test_the_host_is_that_of_the_rank(tmp_path: Path, failure: Failure, host: str | None) -> None:
    assert with_place(failure, progress(tmp_path, {0: "node1", 1: "node2"}), 0).host == host


@pytest.mark.parametrize(
    ("host", "signal", "number", "explanation"),
    [
        (HERE, "SIGKILL", 1, "ended a process for lack of memory"),
        (HERE, "SIGKILL", 2, "ended 2 processes for lack of memory"),
        (HERE, "SIGKILL", 0, ""),
        (HERE, "SIGSEGV", 1, ""),
        ("another-host", "SIGKILL", 1, ""),
    ],
)
def test_memory_is_named_where_this_kernel_ran_out_of_it(
    tmp_path: Path, host: str, signal: str, number: int, explanation: str
) -> None:
    failure = Failure(reason="rank 1 was ended", rank=1, signal=signal)
    reason = with_place(failure, progress(tmp_path, {1: host}), number).reason

    assert explanation in reason
    assert bool(explanation) == ("memory" in reason)


@pytest.mark.parametrize(
    ("counts", "number"), [([3, 5], 2), ([3, 3], 0), ([None, None], 0), ([None, 4], 0)]
)
def test_only_what_happens_from_now_on_counts(
    monkeypatch: pytest.MonkeyPatch, counts: list[int | None], number: int
) -> None:
    remaining = iter(counts)
    monkeypatch.setattr(failure_evidence, "oom_kills", lambda: next(remaining))

    assert MemoryWatch().num_ended() == number


def planned(name: str) -> Segment:
    return SegmentSpec(model=name, timeline=True).planned()


class Launch:
    """A launch with the segments a and b, of which rank 0 began the timelines that are given."""

    def __init__(self, folder, *begun, problem="", status=Status.DONE):
        self.paths = PassPaths(folder)
        self.segments = [SegmentRecord(segment=planned(name), status=status) for name in "ab"]
        self.ids = [one.segment.id for one in self.segments]
        self.record = PassRecord(
            id="p",
            mode="trace",
            size=1,
            repeat=1,
            controller="gloo",
            oversubscribed=False,
            pinned=False,
            segments=self.segments,
            status=Status.DONE,
        )
        lines = [{"kind": "header", "rank": 0, "size": 1, "host": {"hostname": "node7"}}]
        for place in begun:
            file = f"timeline/{self.ids[place]}.json"
            lines += [
                {"kind": "segment", "id": self.ids[place]},
                {"kind": "timeline", "action": "start", "file": file},
                {"kind": "timeline", "action": "stop", "file": file},
                {"kind": "segment_end", "id": self.ids[place]},
            ]
        if problem:
            lines.append({"kind": "problem", "message": problem, "about": "timeline"})
        self.paths.recorder_folder.mkdir(parents=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.paths.recorder_file(0).write_text(text)

    def wrote(self, place, text="[{}]"):
        path = self.paths.timeline(self.ids[place])
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def checked(self, stderr=""):
        progress = PassProgress(self.paths)
        progress.update()
        fail_without_timeline(self.record, self.paths, progress, stderr)
        return [one.status for one in self.segments]


def test_timelines_that_are_there_are_fine(tmp_path):
    launch = Launch(tmp_path, 0, 1)
    launch.wrote(0)
    launch.wrote(1)
    assert launch.checked() == [Status.DONE] * 2
    assert launch.record.status == Status.DONE


def test_a_timeline_that_was_never_begun_is_not_missed(tmp_path):
    assert Launch(tmp_path).checked() == [Status.DONE] * 2


def test_rank_0_is_named_with_its_host_and_the_words_of_horovod(tmp_path):
    launch = Launch(tmp_path, 0, 1)
    launch.wrote(0)
    assert launch.checked(f"noise\n{OPENING}\n") == [Status.DONE, Status.FAILED]
    assert launch.record.status == Status.FAILED
    failure = launch.segments[1].failure
    said = OPENING.partition("] ")[2]
    assert failure.reason == f"rank 0 could not write Horovod's timeline: {said.rstrip('.')}"
    assert (failure.rank, failure.host, failure.lines) == (0, "node7", [said])


@pytest.mark.parametrize("kind", ["empty", "folder"])
def test_an_empty_file_is_no_timeline_and_neither_is_a_folder(tmp_path, kind):
    launch = Launch(tmp_path, 0)
    if kind == "folder":
        launch.paths.timeline(launch.ids[0]).mkdir(parents=True)
    else:
        launch.wrote(0, "")
    assert launch.checked() == [Status.FAILED, Status.DONE]
    assert launch.segments[0].failure.reason.endswith("timeline; it printed no error")


def test_a_timeline_that_was_broken_off_fails_the_last_one_that_was_begun(tmp_path):
    launch = Launch(tmp_path, 0, 1)
    launch.wrote(0)
    launch.wrote(1)
    printed = "Error writing to the Horovod Timeline after it was successfully opened, will stop"
    assert launch.checked(printed) == [Status.DONE, Status.FAILED]


def test_a_folder_that_the_recorder_could_not_make_is_its_reason(tmp_path):
    launch = Launch(tmp_path, problem="no timeline: [Errno 28] No space left on device: '/r'")
    assert launch.checked() == [Status.DONE, Status.FAILED]
    assert "No space left on device" in launch.segments[1].failure.reason


def test_what_failed_already_keeps_its_reason(tmp_path):
    launch = Launch(tmp_path, 0, status=Status.PARTIAL)
    assert launch.checked(OPENING) == [Status.PARTIAL] * 2
    assert launch.segments[0].failure is None
