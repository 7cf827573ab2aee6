"""A run in MLflow's local store, read back by its own client."""

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.live.flat_figures import flat_figures
from hvdprof.live.sinks.choose import SinkOptions, sinks_of
from hvdprof.live.sinks.trackers import MlflowRun
from tests.builders.watched_job import event, snapshot

pytest.importorskip("mlflow", reason="no MLflow (extra mlflow)")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_figures_and_events_are_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "training")
    sink = MlflowRun(tmp_path / "run-7")
    sink.show(snapshot(step=1, step_s=0.1))
    sink.show(snapshot(step=2, step_s=0.2))
    sink.report(event())
    sink.close()
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("training")
    [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("run-7", "FINISHED")
    assert run.data.metrics == flat_figures(snapshot(step=2, step_s=0.2))
    assert run.data.tags["hvdprof.event.1"] == event().text
    history = client.get_metric_history(run.info.run_id, "hvdprof/step_seconds")
    assert [(one.step, one.value, one.timestamp) for one in history] == [
        (1, 0.1, 1_795_800_000_250),
        (2, 0.2, 1_795_800_000_250),
    ]
    assert run.info.run_id in sink.where
    # A second job of the same name is another run of the same experiment.
    MlflowRun(tmp_path / "run-8").close()
    assert len(client.search_runs([experiment.experiment_id])) == 2


def test_a_store_that_makes_no_run_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "no-such-scheme://here")
    with pytest.raises(EnvironmentNotReadyError, match="--to mlflow cannot be used: "):
        sinks_of(SinkOptions(tmp_path, to=["mlflow"]))
