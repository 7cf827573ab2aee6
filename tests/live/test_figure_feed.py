"""The figures of a job inside one of its ranks."""

import io
import json
import time

import pytest

from hvdprof.live.figure_feed import FigureFeed, write_figures
from hvdprof.rundir.layout import PassPaths, watched_mark
from tests.builders.live_job import LiveJob


def newest(feed: FigureFeed) -> dict[str, float]:
    deadline = time.monotonic() + 60
    while not (figures := feed.take()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return figures


def test_figures_come_from_a_process_of_its_own_that_ends_with_the_feed(tmp_path):
    job = LiveJob(tmp_path / "recorder", 2)
    job.record(30)
    feed = FigureFeed(job.folder, period_s=0)
    feed.start()
    try:
        assert newest(feed)["hvdprof/ranks"] == 2
        assert watched_mark(job.folder).exists()
    finally:
        feed.close()
    assert feed._process.poll() == 0
    assert not watched_mark(job.folder).exists()
    assert feed.take() == {}


def test_figures_are_taken_once_a_period(tmp_path):
    job = LiveJob(tmp_path, 2)
    job.record(3)
    feed = FigureFeed(job.folder, period_s=3600)
    feed.start()
    assert newest(feed)
    time.sleep(1.5)
    assert feed.take() == {}
    feed.close()


def test_without_a_recording_nothing_starts_and_nothing_is_said(monkeypatch, capfd):
    monkeypatch.delenv("HVDPROF_RECORDER_DIR", raising=False)
    feed = FigureFeed()
    feed.start()
    assert feed.take() == {}
    feed.close()
    assert capfd.readouterr().err == ""


def test_a_watcher_that_cannot_watch_is_one_line(tmp_path, capfd):
    feed = FigureFeed(tmp_path / "gone", period_s=0)
    feed.start()
    deadline = time.monotonic() + 60
    while not feed._is_off and time.monotonic() < deadline:
        time.sleep(0.05)
    feed.fail(RuntimeError("again"))
    feed.start()
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("hvdprof recorder: no more live figures in this framework's logger: ")
    assert "gone is no folder" in line


def test_a_watcher_that_is_ended_is_one_line(tmp_path, capfd):
    job = LiveJob(tmp_path, 2)
    job.record(3)
    feed = FigureFeed(job.folder, period_s=0)
    feed.start()
    assert newest(feed)
    feed._process.kill()
    deadline = time.monotonic() + 60
    while not feed._is_off and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "the watcher has ended with exit code -9." in capfd.readouterr().err


@pytest.mark.parametrize("is_of_run", [True, False])
def test_events_go_where_other_watchers_of_the_job_keep_theirs(tmp_path, is_of_run):
    own = PassPaths(tmp_path / "np2")
    folder = own.recorder_folder if is_of_run else tmp_path / "mine"
    job = LiveJob(folder, 2, extra=lambda rank, _: 0.5 * (rank == 1))
    job.record(120)
    written = _Ended(job)
    write_figures(folder, written)
    figures = [json.loads(line) for line in written.getvalue().splitlines()]
    assert figures[0]["hvdprof/events_total/straggler"] == 1
    assert (own.events if is_of_run else folder / "events.jsonl").exists()


class _Ended(io.StringIO):
    """Lets the job end once its first figures are there."""

    def __init__(self, job: LiveJob) -> None:
        super().__init__()
        self._job = job
        self._has_ended = False

    def flush(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._job.end()
