"""What is written of an answer, as one text."""

import io

from hvdprof.report.answer import Answer


def written(answer: Answer, format_: str = "terminal", *, width: int | None = None) -> str:
    """The text of one format."""
    stream = io.StringIO()
    answer.write(format_, stream, width=width)
    return stream.getvalue()
