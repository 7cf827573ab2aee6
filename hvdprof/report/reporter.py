"""What every report format offers.

Tested in ``tests/report/test_formats.py``.
"""

from typing import IO, ClassVar, Protocol

from hvdprof.model.run import RunAnalysis
from hvdprof.report.format_names import Format


class Reporter(Protocol):
    """One format: a name, the endings of file names that choose it, and how it is written.

    Shaping and writing are two steps in every format: a function of the format's module turns
    the analysis into plain values, and ``render`` only writes these. Options of a format belong
    to its own constructor, never to ``render``.
    """

    name: ClassVar[Format]
    suffixes: ClassVar[tuple[str, ...]]

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the analysis to a text stream."""
