"""A file for the textfile collector of node_exporter, replaced as a whole in each window."""

from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.live.flat_figures import Figure, figures_of
from hvdprof.live.sinks.prom_text import prom_text
from hvdprof.live.sinks.sink import Sink
from hvdprof.live.snapshot import Snapshot
from hvdprof.rundir.written_file import write_whole


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
