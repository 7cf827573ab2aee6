"""Event files of TensorBoard, by its own writer."""

import shutil
import time
from pathlib import Path
from textwrap import indent

from hvdprof.live.flat_figures import flat_figures
from hvdprof.live.sinks.sink import Sink, Summary
from hvdprof.live.snapshot import Event, Snapshot

FOLDER = "tensorboard"
REPORT = "report.html"


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
