"""A run of W&B without network, read back from its own file."""

import os
import subprocess
import sys

import pytest

from hvdprof.live.sinks.trackers import WandbRun
from tests.builders.offline_wandb import offline_records
from tests.builders.watched_job import event, snapshot

pytest.importorskip("wandb", reason="no Weights & Biases (extra wandb)")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_figures_and_alerts_are_in_the_offline_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = tmp_path / "run-7"
    folder.mkdir()
    sink = WandbRun(folder)
    assert str(folder / "wandb") in sink.where
    sink.show(snapshot(step=1, step_s=0.1))
    sink.report(event())
    sink.show(snapshot(step=2, step_s=0.2))
    sink.close()
    records = offline_records(folder)
    [run] = [record.run for record in records if record.WhichOneof("record_type") == "run"][:1]
    assert (run.project, run.display_name) == ("hvdprof", "run-7")
    rows = [
        {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    assert [(row["hvdprof/last_step"], row["hvdprof/step_seconds"]) for row in rows] == [
        ("1", "0.1"),
        ("2", "0.2"),
    ]
    [alert] = [record.alert for record in records if record.WhichOneof("record_type") == "alert"]
    assert (alert.title, alert.text) == ("hvdprof: straggler", event().text)
    axes = {
        record.metric.glob_name: record.metric.step_metric
        for record in records
        if record.WhichOneof("record_type") == "metric"
    }
    assert axes["hvdprof/*"] == "hvdprof/last_step"


def test_without_an_account_the_way_out_is_named(tmp_path):
    # In a process of its own: wandb reads its variables once.
    code = (
        "from pathlib import Path; from hvdprof.live.sinks.choose import SinkOptions, sinks_of; "
        f"sinks_of(SinkOptions(Path({str(tmp_path)!r}), to=['wandb']))"
    )
    environment = {**os.environ, "WANDB_MODE": "online", "WANDB_API_KEY": "short"}
    started = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    message = started.stderr.strip().splitlines()[-1]
    assert message.startswith(
        "hvdprof.errors.EnvironmentNotReadyError: --to wandb cannot be used: WANDB_API_KEY invalid"
    )
    assert not message.endswith("..")
