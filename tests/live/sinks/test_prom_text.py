"""The text that Prometheus reads, also by its own promtool where that is installed."""

import shutil
import subprocess

import pytest

from hvdprof.live.flat_figures import figures_of
from hvdprof.live.sinks.prom_text import prom_text
from tests.builders.watched_job import HOSTILE, rank_view, snapshot

EXPECTED = """\
# HELP hvdprof_last_step Last step that all ranks have ended.
# TYPE hvdprof_last_step gauge
hvdprof_last_step{job="resnet"} 120.0
"""


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
