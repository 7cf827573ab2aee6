"""Figures in Prometheus' text format, version 0.0.4, and a file of them for node_exporter."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.live.flat_figures import Figure, figures_of
from hvdprof.live.sinks.sink import Sink
from hvdprof.live.snapshot import Snapshot
from hvdprof.rundir.written_file import write_whole

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class PromFile(Sink):
    """``--prom FILE``.

    Raises:
        UsageError: The name does not end in ``.prom``, which the collector reads alone.
        StorageError: When the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != ".prom":
            raise UsageError(
                f"--prom {path} is not read by node_exporter, which reads *.prom alone.",
                hint=f"--prom {path.with_suffix('.prom')}",
            )
        self.name = f"--prom {path}"
        self.where = str(path)
        self._path = path
        self._figures: list[Figure] = []

    def show(self, snapshot: Snapshot) -> None:
        """Write the figures of a window."""
        self._figures = figures_of(snapshot)
        write_whole(self._path, prom_text(self._figures))

    def close(self) -> None:
        """Leave what stays true: node_exporter would export the last step time for ever."""
        if self._figures:
            lasting = [figure for figure in self._figures if figure.metric.stays]
            write_whole(self._path, prom_text(lasting))


def prom_text(figures: Iterable[Figure]) -> str:
    """The lines of figures that are in the order of their metrics, with HELP and TYPE."""
    return "".join(
        line
        for metric, group in groupby(figures, key=lambda figure: figure.metric)
        for line in (
            f"# HELP {metric.name} {metric.help}\n",
            f"# TYPE {metric.name} {metric.kind}\n",
            *(f"{metric.name}{{{_labels(figure)}}} {figure.value!r}\n" for figure in group),
        )
    )


def _labels(figure: Figure) -> str:
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in figure.labels.items() if value
    )
