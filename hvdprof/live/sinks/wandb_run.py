"""A run of Weights & Biases for the whole job; what W&B reads from its variables holds here too."""

import os
from pathlib import Path

from hvdprof.live.flat_figures import STEP, flat_figures
from hvdprof.live.sinks.sink import Sink, Summary
from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.rundir.recording.stall_format import EventState

_START_S = 30


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
