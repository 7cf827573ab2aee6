"""Escaping of names in figures: plotly renders some HTML, and a name is never HTML."""

import html

from hvdprof.plain_text import shortened

_LONGEST = 120


def plain(name: object, longest: int = _LONGEST) -> str:
    """A name that plotly shows letter for letter, cut in the middle where it is long.

    Args:
        name: Name of a tensor, host, file or any other text from outside.
        longest: Most characters that are shown.
    """
    return html.escape(shortened(" ".join(str(name).split()), longest), quote=False)
