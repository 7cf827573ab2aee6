"""Escaping of names in figures: plotly renders some HTML, and a name is never HTML."""

import html

_LONGEST = 120


def plain(name: object, longest: int = _LONGEST) -> str:
    """A name that plotly shows letter for letter, cut in the middle where it is long.

    Args:
        name: Name of a tensor, host, file or any other text from outside.
        longest: Most characters that are shown.
    """
    text = " ".join(str(name).split())
    if len(text) > longest:
        head = (longest - 1) // 2
        text = f"{text[:head]}…{text[-(longest - 1 - head) :]}"
    return html.escape(text, quote=False)
