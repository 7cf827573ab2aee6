"""The file for node_exporter: whole in each window, and what stays at the end."""

import shutil
import subprocess

import pytest

from hvdprof.errors import StorageError, UsageError
from hvdprof.live.flat_figures import figures_of
from hvdprof.live.sinks.prom_file import PromFile, prom_text
from tests.builders.watched_job import HOSTILE, event, rank_view, snapshot

EXPECTED = """\
# HELP hvdprof_last_step Last step that all ranks have ended.
# TYPE hvdprof_last_step gauge
hvdprof_last_step{job="resnet"} 120.0
"""


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


def test_the_lines_of_a_metric():
    text = prom_text(figures_of(snapshot()))
    assert text.startswith(EXPECTED)
    late = 'hvdprof_lateness_seconds{job="resnet",rank="3",host="node1",phase="data"} 0.02\n'
    assert late in text
    # A label without a value is none.
    assert 'hvdprof_lateness_seconds{job="resnet",rank="0",host="node0"} 0.0\n' in text
    assert "# TYPE hvdprof_events_total counter\n" in text
    assert "NaN" not in text


def test_hostile_names_stay_inside_their_label():
    ranks = [rank_view(0, late_s=0.01, host='x",rank="9"} 1\nhvdprof_fake 1\\')]
    text = prom_text(figures_of(snapshot(job=HOSTILE, ranks=ranks)))
    assert all(line.startswith(("# ", "hvdprof_")) for line in text.splitlines())
    assert "\nhvdprof_fake" not in text
    assert r'host="x\",rank=\"9\"} 1\\x0ahvdprof_fake 1\\"' in text
    text.encode("utf-8")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (package prometheus)")
@pytest.mark.parametrize("job", ["resnet", HOSTILE])
def test_promtool_finds_no_fault(job: str):
    ranks = [rank_view(rank, late_s=0.02, host=job) for rank in range(4)]
    shown = snapshot(job=job, ranks=ranks, exposed_communication_ratio=0.1)
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=prom_text(figures_of(shown)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
