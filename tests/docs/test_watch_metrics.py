"""The page on the metrics of a running job: its table, board, alerts and scripts work."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs import generate
from hvdprof.live.flat_figures import METRICS
from hvdprof.live.sinks.event_command import EventCommand
from tests.builders.grafana_board import board_queries
from tests.builders.places import DOCS
from tests.builders.watched_job import event, snapshot

PAGE = (DOCS / "reference" / "watch_metrics.md").read_text(encoding="utf-8")
ALERTS = next(
    text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "alert:" in text
)
LABELS = {metric.name: {"job", *metric.labels} for metric in METRICS}

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")


def test_the_page_is_up_to_date():
    assert generate.metrics_page() == PAGE


@pytest.mark.parametrize("query", [*board_queries(), *re.findall(r"expr: (.*)", ALERTS)])
def test_queries_ask_for_metrics_and_labels_that_are_exported(query: str):
    names = re.findall(r"hvdprof_\w+", query)
    assert names
    assert set(names) <= set(LABELS)
    asked = re.findall(r"(\w+)(?:=~|!=|=)\"", query)
    for by in re.findall(r"by \(([^)]*)\)", query):
        asked += by.split(", ")
    assert all(set(asked) <= LABELS[name] for name in names)


def test_the_board_shows_what_the_metrics_are_for():
    shown = set(re.findall(r"hvdprof_\w+", " ".join(board_queries())))
    assert set(LABELS) - shown == {"hvdprof_last_step", "hvdprof_ranks", "hvdprof_job_over"}
    board = json.loads((DOCS / "reference" / "watch_board.json").read_text(encoding="utf-8"))
    legends = " ".join(t["legendFormat"] for panel in board["panels"] for t in panel["targets"])
    known = set().union(*LABELS.values())
    assert set(re.findall(r"{{(\w+)}}", legends)) <= known
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (package prometheus)")
def test_promtool_accepts_the_alerts(tmp_path):
    (tmp_path / "rules.yml").write_text(ALERTS)
    checked = subprocess.run(
        ["promtool", "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "3 rules found" in checked.stdout


def _run(tmp_path: Path, monkeypatch, script: str, program: str, **changes: object) -> list[str]:
    """The arguments and standard input of a program that a script of the page calls."""
    text = next(
        text
        for name, text in re.findall(r"`(\w+\.sh)`.*?```sh\n(.*?)```", PAGE, re.DOTALL)
        if name == script
    )
    stub = f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/seen\ncat >> {tmp_path}/seen\n'
    for name, content in ((script, text), (program, stub)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLACK_WEBHOOK_URL", "https://hooks.example/T0")
    monkeypatch.setenv("MAIL_TO", "ops@example.org")
    sink = EventCommand(str(tmp_path / script))
    sink.show(snapshot())
    sink.report(event(**changes))
    seen = tmp_path / "seen"
    return seen.read_text().splitlines() if seen.exists() else []


@needs_jq
def test_the_script_for_slack(tmp_path, monkeypatch):
    seen = _run(tmp_path, monkeypatch, "slack.sh", "curl", text='rank 3 "$(id)"')
    place = seen.index("https://hooks.example/T0")
    posted = json.loads("".join(seen[place + 1 :]))
    assert posted == {"text": 'resnet: straggler begun: rank 3 "$(id)"'}


@needs_jq
def test_the_script_for_mail(tmp_path, monkeypatch):
    seen = _run(tmp_path, monkeypatch, "mail.sh", "mail")
    assert seen == [
        "-s",
        "hvdprof event",
        "ops@example.org",
        "resnet: straggler begun",
        event().text,
    ]


@needs_jq
def test_the_script_for_slurm_drains_for_costly_stragglers_alone(tmp_path, monkeypatch):
    assert _run(tmp_path, monkeypatch, "drain.sh", "scontrol", cost_s=0.01) == []
    assert _run(tmp_path, monkeypatch, "drain.sh", "scontrol", state="over") == []
    seen = _run(tmp_path, monkeypatch, "drain.sh", "scontrol", cost_s=0.03, host="a b")
    assert seen == [
        "update",
        "NodeName=a b",
        "State=DRAIN",
        "Reason=hvdprof: straggler",
    ]
