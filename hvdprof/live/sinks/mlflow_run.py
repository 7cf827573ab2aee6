"""A run of MLflow for the whole job, where MLflow's own variables say, ``MLFLOW_TRACKING_URI``."""

import os
import time
from pathlib import Path

from hvdprof.live.flat_figures import flat_figures
from hvdprof.live.sinks.sink import Sink, Summary
from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.plain_text import shortened

_MOST_METRICS = 1000
"""Of one request, as MLflow limits it."""

_LONGEST_TAG = 5000


class MlflowRun(Sink):
    """``--to mlflow``: metrics over the step of the job, each event as a tag of the run.

    Args:
        folder: Its name is that of the run.

    Raises:
        ImportError: mlflow, or what its store needs, is not installed.
        MlflowException: The store does not make a run.
    """

    def __init__(self, folder: Path) -> None:
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        self._metric = Metric
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "hvdprof")
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        run = self._client.create_run(experiment, run_name=folder.absolute().name)
        self._run_id = run.info.run_id
        self.name = "--to mlflow"
        self.where = f"experiment {name}, run {self._run_id}, in {self._client.tracking_uri}"

    def show(self, snapshot: Snapshot) -> None:
        """Log the figures of a window in one request."""
        time_ms = round(snapshot.time_s * 1000)
        figures = flat_figures(snapshot).items()
        metrics = [self._metric(key, value, time_ms, snapshot.step) for key, value in figures]
        self._client.log_batch(self._run_id, metrics)

    def report(self, event: Event) -> None:
        """Set the tag of an event to its newest text."""
        self._client.set_tag(self._run_id, f"hvdprof.event.{event.number}", event.text)

    def publish(self, summary: Summary) -> None:
        """Log the metrics, the texts as tags, and the HTML report as artifact."""
        now_ms = round(time.time() * 1000)
        metrics = [self._metric(key, value, now_ms, 0) for key, value in summary.figures.items()]
        for first in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics[first : first + _MOST_METRICS])
        for key, text in summary.texts.items():
            self._client.set_tag(self._run_id, key.replace("/", "."), shortened(text, _LONGEST_TAG))
        self._client.log_artifact(self._run_id, str(summary.report))

    def close(self) -> None:
        """End the run of MLflow."""
        self._client.set_terminated(self._run_id)
