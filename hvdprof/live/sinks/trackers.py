"""Sinks of other programs: TensorBoard, Weights & Biases, MLflow, TrainJobs of Kubeflow."""

import json
import os
import shutil
import ssl
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent

from hvdprof.errors import UsageError
from hvdprof.live.flat_figures import STEP, flat_figures
from hvdprof.live.sinks.fail_open import Sink, Summary
from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.plain_text import shortened
from hvdprof.rundir.recording.stall_format import EventState

FOLDER = "tensorboard"
REPORT = "report.html"

_START_S = 30

_MOST_METRICS = 1000
"""Of one request, as MLflow limits it."""

_LONGEST_TAG = 5000

PREFIXES = ("KUBEFLOW_TRAINER_SERVER_", "KUBEFLOW_TRAINER_STATUS_")
"""Of the variables that the controller sets: in newer and in older versions."""

PERIOD_S = 10.0
_POST_S = 5.0


class TensorboardFiles(Sink):
    """``--to tensorboard``: scalars over the step of the job, events as texts.

    Args:
        folder: Gets a folder ``tensorboard`` with the files.

    Raises:
        ImportError: tensorboard is not installed.
        OSError: The folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.plugins.text.summary_v2 import text_pb
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.name = "--to tensorboard"
        self.where = str(folder / FOLDER)
        self._event = event_pb2.Event
        self._summary = summary_pb2.Summary
        self._text = text_pb
        self._writer = EventFileWriter(self.where, flush_secs=10)

    def show(self, snapshot: Snapshot) -> None:
        """Write the figures of a window."""
        figures = flat_figures(snapshot).items()
        values = [self._summary.Value(tag=key, simple_value=value) for key, value in figures]
        self._write(self._summary(value=values), snapshot.step, snapshot.time_s)

    def report(self, event: Event) -> None:
        """Write an event as a text."""
        # TensorBoard draws texts as Markdown: as code, names stay as they are.
        text = "    " + event.text
        self._write(self._text("hvdprof/events", text), event.step, event.time_s)

    def publish(self, summary: Summary) -> None:
        """Write scalars and texts at step 0, and the HTML report beside the event files."""
        now_s = time.time()
        figures = summary.figures.items()
        values = [self._summary.Value(tag=key, simple_value=value) for key, value in figures]
        self._write(self._summary(value=values), 0, now_s)
        for key, text in summary.texts.items():
            self._write(self._text(key, indent(text, "    ")), 0, now_s)
        shutil.copyfile(summary.report, Path(self.where) / REPORT)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()

    def _write(self, summary: object, step: int, time_s: float) -> None:
        self._writer.add_event(self._event(summary=summary, step=step, wall_time=time_s))


class WandbRun(Sink):
    """``--to wandb``: scalars over the step of the job, an alert when an event begins.

    Args:
        folder: Holds the folder ``wandb`` of the run; its name is that of the run.

    Raises:
        ImportError: wandb is not installed.
        wandb.Error: W&B does not start a run, for example without an account.
    """

    def __init__(self, folder: Path) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "hvdprof"),
            name=os.environ.get("WANDB_NAME", folder.absolute().name),
            dir=folder,
            # The terminal and the load of the watcher are not those of the job.
            settings=wandb.Settings(
                console="off", silent=True, x_disable_stats=True, init_timeout=_START_S
            ),
        )
        self.name = "--to wandb"
        self.where = self._run.dir if self._run.offline else self._run.url
        self._artifact = wandb.Artifact
        self._run.define_metric(STEP.flat_name)
        self._run.define_metric("hvdprof/*", step_metric=STEP.flat_name)

    def show(self, snapshot: Snapshot) -> None:
        """Log the figures of a window."""
        self._run.log(flat_figures(snapshot))

    def report(self, event: Event) -> None:
        """Send an alert, which W&B passes on by mail or Slack as the account says."""
        if event.state is not EventState.OVER:
            self._run.alert(f"hvdprof: {event.kind}", event.text)

    def publish(self, summary: Summary) -> None:
        """Set the summary of the run, with the HTML report as artifact."""
        self._run.summary.update({**summary.figures, **summary.texts})
        artifact = self._artifact("hvdprof-report", type="report")
        artifact.add_file(str(summary.report), name=summary.report.name)
        self._run.log_artifact(artifact)

    def close(self) -> None:
        """End the run of W&B."""
        self._run.finish()


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


class KubeflowStatus(Sink):
    """``--to kubeflow``: posts the figures every 10 s, and the last ones at the end.

    The status has no other metrics then: a script that reports its own replaces these.

    Raises:
        UsageError: The variables of the controller are not set, or name no HTTPS address.
        OSError: The certificate cannot be read.
    """

    limit_s = _POST_S + 1

    def __init__(
        self, environment: Mapping[str, str] = os.environ, period_s: float = PERIOD_S
    ) -> None:
        prefix = next((one for one in PREFIXES if environment.get(f"{one}URL")), PREFIXES[0])
        names = [f"{prefix}{name}" for name in ("URL", "CA_CERT", "TOKEN")]
        if missing := [name for name in names if not environment.get(name)]:
            raise UsageError(
                f"--to kubeflow: {', '.join(missing)} is not set.",
                hint="Watch in a pod of a TrainJob whose controller has the gate TrainJobStatus.",
            )
        url, certificate, token = (environment[name] for name in names)
        if not url.startswith("https://"):
            raise UsageError(f"--to kubeflow: {prefix}URL is no https:// address: {url}.")
        self.name = "--to kubeflow"
        self.where = url
        self._token_file = Path(token)
        self._tls = ssl.create_default_context(cafile=certificate)
        self._period_s = period_s
        self._due_s = 0.0
        self._unsent: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Post the figures of a window when it is time."""
        self._unsent = snapshot
        if snapshot.is_over or time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + self._period_s
            self._post(snapshot)

    def close(self) -> None:
        """Post the last figures."""
        if self._unsent is not None:
            self._post(self._unsent)

    def _post(self, snapshot: Snapshot) -> None:
        headers = {
            # The token is exchanged while the job runs.
            "Authorization": f"Bearer {self._token_file.read_text(encoding='utf-8').strip()}",
            "Content-Type": "application/json",
        }
        request = urllib.request.Request(
            self.where, data=json.dumps(status_of(snapshot)).encode(), headers=headers
        )
        with urllib.request.urlopen(request, timeout=_POST_S, context=self._tls):
            self._unsent = None


def status_of(snapshot: Snapshot) -> dict[str, object]:
    """The body of a post; how far the training is, no watcher knows."""
    return {
        "trainerStatus": {
            "metrics": [
                {"name": key, "value": f"{value:.6g}"}
                for key, value in flat_figures(snapshot).items()
            ],
            "lastUpdatedTime": datetime.fromtimestamp(snapshot.time_s, UTC).isoformat(),
        }
    }
