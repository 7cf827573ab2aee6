"""Results inside another page, such as a notebook: HTML with its own styles, without scripts."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from hvdprof.model.run import RunAnalysis
from hvdprof.report.screen.tiles import tiles
from hvdprof.report.sections.section import Page, Section
from hvdprof.report.terminal.waterfall_section import Bar, shape_waterfall

_TILE = (
    "display:inline-block;vertical-align:top;margin:2px 6px 2px 0;padding:4px 10px;"
    "border:1px solid #9aa0a6;border-left:4px solid {};border-radius:6px"
)
_COLOURS = {"good": "#1b7f3b", "caution": "#b26a00", "bad": "#b3261e"}
_GREY, _LOSS, _GAIN = "#9aa0a6", "#d55e00", "#009e73"
_LEFT = "text-align:left"
_BAR_WIDTH = 220


def analysis_html(analysis: RunAnalysis) -> str:
    """The first screen: verdict, caveat, the five numbers, and the waterfall as bars."""
    caveat = analysis.verdict.caveat
    numbers = "".join(
        f"<div style='{_TILE.format(_COLOURS.get(tile.tone, _GREY))}'>"
        f"<small>{escape(tile.title)}</small><br><b>{escape(tile.value)}</b><br>"
        f"<small>{escape(tile.detail)}</small></div>"
        for tile in tiles(analysis)
    )
    return _of_parts(
        [*_verdict(analysis.verdict.sentence, caveat), f"<div>{numbers}</div>"],
        _waterfall(analysis),
    )


def page_html(page: Page) -> str:
    """The sections of another result as tables and sentences."""
    return _of_parts(*(_section(section) for section in page.sections), _notes(page.notes))


def _of_parts(*parts: Iterable[str]) -> str:
    return f"<div>{''.join(line for part in parts for line in part)}</div>"


def _verdict(sentence: str, caveat: str) -> Iterator[str]:
    if sentence:
        yield f"<p><b>{escape(sentence)}</b></p>"
    if caveat:
        yield f"<p>Caveat: {escape(caveat)}</p>"


def _waterfall(analysis: RunAnalysis) -> Iterator[str]:
    page = shape_waterfall(analysis)
    if page is None:
        return
    yield f"<p>{escape(page.title)} (means, shares of the mean step)</p><table>"
    for bar in page.bars:
        cells = (_cell(bar.name), *(_cell(text, "") for text in (bar.time, bar.share)))
        yield f"<tr>{''.join(cells)}<td style='{_LEFT}'>{_drawn(bar)}</td></tr>"
    yield "</table>"


def _drawn(bar: Bar) -> str:
    width, colour = max(1, round(bar.length * _BAR_WIDTH)), _GAIN if bar.is_gain else _LOSS
    return (
        f"<svg width='{_BAR_WIDTH}' height='10' role='img' aria-label='{escape(bar.share)}'>"
        f"<rect width='{width}' height='10' fill='{colour}'/></svg>"
    )


def _section(section: Section) -> Iterator[str]:
    if section.title:
        detail = f" <small>{escape(section.detail)}</small>" if section.detail else ""
        yield f"<h4>{escape(section.title)}{detail}</h4>"
    yield from _verdict(section.verdict, section.caveat)
    for action in section.actions:
        command = f" <code>{escape(action.command)}</code>" if action.command else ""
        yield f"<p>{escape(' '.join(filter(None, (action.label, action.sentence))))}{command}</p>"
    if section.caption:
        yield f"<p>{escape(section.caption)}</p>"
    if section.rows:
        yield from _table(section)
    yield from (f"<p>{escape(text)}</p>" for text in (*section.sentences, section.note) if text)


def _table(section: Section) -> Iterator[str]:
    sides = [_LEFT if head.is_text else "" for head in section.heads]
    yield "<table>"
    if section.has_heads:
        heads = (
            _cell(head.name, side, "th") for head, side in zip(section.heads, sides, strict=True)
        )
        yield f"<tr>{''.join(heads)}</tr>"
    for row in section.rows:
        yield f"<tr>{''.join(map(_cell, row, sides))}</tr>"
    yield "</table>"


def _cell(text: str, side: str = _LEFT, tag: str = "td") -> str:
    return f"<{tag} style='{side}'>{escape(text).replace(chr(10), '<br>')}</{tag}>"


def _notes(notes: Sequence[str]) -> Iterator[str]:
    yield from (f"<p>{escape(note)}</p>" for note in notes)
