"""What every report format offers."""

from typing import IO, ClassVar, Protocol

from hvdprof.model.run import RunAnalysis


class Reporter(Protocol):
    """One format: a name, the file suffixes that choose it, and how it is written.

    Options of a format belong to its own constructor, never to ``render``.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the analysis to a text stream."""
