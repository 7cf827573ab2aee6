"""The console of all reports: text from files takes no effect on the terminal."""

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from hvdprof.plain_text import printable_lines


def report_console(stream: IO[str], width: int | None = None) -> Console:
    """A console that writes to a stream and shows control characters of texts as escapes.

    Args:
        stream: Where to.
        width: Characters of a line; that of the terminal when not given.
    """
    return _PlainConsole(file=stream, width=width, highlight=False, emoji=False)


class _PlainConsole(Console):
    """Texts pass here before they are laid out; the sequences of styles are made afterwards."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        if isinstance(renderable, str):
            renderable = printable_lines(renderable)
        elif isinstance(renderable, Text):
            plain = printable_lines(renderable.plain)
            # Only a text with such characters loses its highlights.
            if plain != renderable.plain:
                renderable = renderable.blank_copy(plain)
        return super().render(renderable, options)
