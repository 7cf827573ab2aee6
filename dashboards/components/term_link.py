"""Terms of the glossary within a text: each shows its definition and links to its page."""

import re
from collections.abc import Collection, Iterator, Sequence

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from hvdprof.model.glossary import GLOSSARY, Term
from hvdprof.report.document.section_markdown import code_pieces

GLOSSARY_PATH = "/glossary"

_BASIC = ("rank", "step", "cell", "launch", "wait", "transfer", "collective", "replay")
"""Terms of nearly every sentence: links on them would hide the others."""

_WIDTH = 320
_SHORT = re.compile(r" \([^)]*\)$")
_OPTION = re.compile(r"(?<!\S)(--[a-z][\w-]*)")


def linked_terms(text: str, known: Collection[str] = ()) -> list[Component | str]:
    """The text with a link at the first use of each term of the glossary.

    Args:
        text: Plain text.
        known: Names of terms that get no link, because they have one close by.
    """
    return list(_pieces(text, known))


def with_code(text: str) -> list[Component | str]:
    """The text with what stands in backticks as code, without the backticks."""
    pieces = code_pieces(text)
    return [dmc.Code(piece) if place % 2 else piece for place, piece in enumerate(pieces) if piece]


def titled(text: str) -> list[Component | str] | str:
    """A title or heading with its terms linked; the text itself where it holds none."""
    pieces = linked_terms(text)
    return text if pieces == [text] else pieces


def terms_in(*texts: str) -> list[Term]:
    """The terms that are linked in texts, in order of their first use."""
    found = [_BY_SPELLING[match[0].lower()] for text in texts for match in _PATTERN.finditer(text)]
    return list({term.name: term for term in found}.values())


def term_list(texts: Sequence[str], known: Collection[str] = ()) -> dmc.Text | None:
    """A line of links to the terms in texts that hold no links themselves; None without any.

    Args:
        texts: Texts such as the headings of a grid.
        known: Names of terms that have a link close by.
    """
    found = [term for term in terms_in(*texts) if term.name not in known]
    if not found:
        return None
    links: list[Component | str] = ["Terms: "]
    for term in found:
        links += [term_link(term, term.name), ", "]
    return dmc.Text(links[:-1], size="sm", className="about")


def term_link(term: Term, text: str) -> dmc.Tooltip:
    """A text that shows a term's definition on hover and focus, with a link to the glossary."""
    return dmc.Tooltip(
        dmc.Anchor(text, href=f"{GLOSSARY_PATH}#{term.anchor}", className="term", inherit=True),
        label=term.definition.replace("`", ""),
        multiline=True,
        w=_WIDTH,
        withArrow=True,
        events={"hover": True, "focus": True, "touch": True},
        # Else the term stands on a line of its own.
        boxWrapperProps={"display": "inline"},
    )


def _pieces(text: str, known: Collection[str]) -> Iterator[Component | str]:
    seen = set(known)
    for piece in with_code(text):
        if isinstance(piece, str):
            yield from _terms(piece, seen)
        else:
            yield piece


def _terms(text: str, seen: set[str]) -> Iterator[Component | str]:
    """The pieces of a text without code; terms that get a link are added to ``seen``."""
    at = 0
    for match in _PATTERN.finditer(text):
        term = _BY_SPELLING[match[0].lower()]
        if term.name in seen:
            continue
        seen.add(term.name)
        if match.start() > at:
            yield from _with_options(text[at : match.start()])
        yield term_link(term, match[0])
        at = match.end()
    if at < len(text):
        yield from _with_options(text[at:])


def _with_options(text: str) -> Iterator[Component | str]:
    """The text with each option of a command unbroken: browsers break lines after hyphens."""
    for place, piece in enumerate(_OPTION.split(text)):
        if piece:
            yield html.Span(piece, className="option") if place % 2 else piece


def _spellings() -> dict[str, Term]:
    """Each term under its name and its name without parentheses; the first term wins."""
    spellings: dict[str, Term] = {}
    for term in GLOSSARY:
        if term.name not in _BASIC:
            spellings.setdefault(term.name.lower(), term)
    for term in GLOSSARY:
        short = _SHORT.sub("", term.name).lower()
        if short not in _BASIC:
            spellings.setdefault(short, term)
    return spellings


_BY_SPELLING = _spellings()
# The longest first, so that "exposed communication" is not found within a longer term.
_PATTERN = re.compile(
    r"\b(?:" + "|".join(map(re.escape, sorted(_BY_SPELLING, key=len, reverse=True))) + r")(?!\w)",
    re.IGNORECASE,
)
