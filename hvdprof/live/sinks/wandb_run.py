"""A run of Weights & Biases for the whole job; what W&B reads from its variables holds here too."""

import os
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError
from hvdprof.live.flat_figures import STEP, flat_figures
from hvdprof.live.sinks.sink import Sink, reason_of
from hvdprof.live.snapshot import Event, Snapshot
from hvdprof.rundir.recording.event_format import EventState

PROJECT = "hvdprof"
_START_S = 30


class WandbRun(Sink):
    """``--to wandb``: scalars over the step of the job, an alert when an event begins.

    Args:
        folder: Holds the folder ``wandb`` of the run; its name is that of the run.

    Raises:
        MissingExtraError: wandb is not installed.
        EnvironmentNotReadyError: W&B does not start a run, for example without an account.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("--to wandb", extra="wandb") from error
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=os.environ.get("WANDB_NAME", folder.absolute().name),
                dir=folder,
                # The terminal and the load of the watcher are not those of the job.
                settings=wandb.Settings(
                    console="off", silent=True, x_disable_stats=True, init_timeout=_START_S
                ),
            )
        except (wandb.Error, OSError) as error:
            raise EnvironmentNotReadyError(
                f"--to wandb: W&B did not start a run: {reason_of(error)}.",
                hint="Run `wandb login`, or record for later with WANDB_MODE=offline.",
            ) from error
        self.name = "--to wandb"
        self.where = self._run.dir if self._run.offline else self._run.url
        step = STEP.flat_name
        self._run.define_metric(step)
        self._run.define_metric("hvdprof/*", step_metric=step)

    def show(self, snapshot: Snapshot) -> None:
        """Log the figures of a window."""
        self._run.log(flat_figures(snapshot))

    def tell(self, event: Event) -> None:
        """Send an alert, which W&B passes on by mail or Slack as the account says."""
        if event.state is not EventState.OVER:
            self._run.alert(f"hvdprof: {event.kind}", event.text)

    def close(self) -> None:
        """End the run of W&B."""
        self._run.finish()
