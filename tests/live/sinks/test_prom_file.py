"""The file for node_exporter: whole in each window, and what stays at the end."""

import pytest

from hvdprof.errors import StorageError, UsageError
from hvdprof.live.sinks.prom_file import PromFile
from tests.builders.watched_job import event, snapshot


def test_each_window_replaces_the_file(tmp_path):
    sink = PromFile(tmp_path / "node.prom")
    sink.show(snapshot(step_s=0.1))
    first = (tmp_path / "node.prom").stat()
    sink.report(event())
    sink.show(snapshot(step_s=0.2))
    text = (tmp_path / "node.prom").read_text()
    assert 'hvdprof_step_seconds{job="resnet"} 0.2\n' in text
    assert "} 0.1\n" not in text
    assert (tmp_path / "node.prom").stat().st_ino != first.st_ino
    # The collector, another user, may read it.
    assert first.st_mode & 0o044 == 0o044
    assert [path.name for path in tmp_path.iterdir()] == ["node.prom"]


def test_the_last_rates_do_not_stay(tmp_path):
    sink = PromFile(tmp_path / "node.prom")
    sink.show(snapshot(is_over=True))
    sink.close()
    names = {
        line.partition("{")[0]
        for line in (tmp_path / "node.prom").read_text().splitlines()
        if not line.startswith("#")
    }
    assert names == {
        "hvdprof_events_total",
        "hvdprof_job_over",
        "hvdprof_seen_timestamp_seconds",
    }


def test_without_a_window_no_file_is_made(tmp_path):
    PromFile(tmp_path / "node.prom").close()
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_the_collector_does_not_read(tmp_path):
    with pytest.raises(UsageError, match=r"reads \*\.prom alone") as refused:
        PromFile(tmp_path / "node.txt")
    assert refused.value.hint == f"--prom {tmp_path / 'node.prom'}"


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Could not write"):
        PromFile(tmp_path / "file" / "node.prom").show(snapshot())
