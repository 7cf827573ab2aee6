"""Where one sentence of a running text ends: verdicts on files, caveats and warnings are such."""

import re

_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z])")


def each_sentence(text: str) -> list[str]:
    """The sentences of a text; none of an empty one."""
    return _SENTENCE_END.split(text) if text else []


def first_clause(text: str) -> str:
    """The first sentence without its full stop."""
    return _SENTENCE_END.split(text)[0].rstrip(".")
