"""An analysis, or any page of sections, as one HTML file, or inside another page."""

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import IO, Any, ClassVar

from hvdprof.errors import needs_extra
from hvdprof.model.run import RunAnalysis
from hvdprof.report.format_names import Format
from hvdprof.report.screen.file_tiles import has_comparison
from hvdprof.report.screen.tiles import tiles
from hvdprof.report.sections.section import Page, Section
from hvdprof.report.terminal.waterfall_section import Bar, shape_waterfall

_HEIGHT = 450
"""Pixels of a figure that does not name its height: plotly's own."""

_LOW = 220
"""Pixels of a figure of the first screen."""

_TILE = (
    "display:inline-block;vertical-align:top;margin:2px 6px 2px 0;padding:4px 10px;"
    "border:1px solid #9aa0a6;border-left:4px solid {};border-radius:6px"
)
_COLOURS = {"good": "#1b7f3b", "caution": "#b26a00", "bad": "#b3261e"}
_GREY, _LOSS, _GAIN = "#9aa0a6", "#d55e00", "#009e73"
_LEFT = "text-align:left"
_BAR_WIDTH = 220

_UNPACK = """(async () => {
  const rooms = () => document.querySelectorAll(".figure [id^=figure-]");
  const say = (text) => rooms().forEach((room) => { room.textContent = text; });
  if (typeof DecompressionStream === "undefined") {
    say("This browser cannot unpack figures: Chrome 80, Firefox 113, Safari 16.4 or newer can.");
    return;
  }
  const text = document.getElementById("packed-figures").textContent;
  const alphabet = ALPHABET;
  const worth = new Uint8Array(128);
  [...alphabet].forEach((letter, at) => { worth[letter.charCodeAt(0)] = at; });
  const bytes = new Uint8Array(text.length / 5 * 4);
  const view = new DataView(bytes.buffer);
  for (let at = 0, to = 0; at < text.length; to += 4) {
    let number = 0;
    const end = at + 5;
    for (; at < end; at += 1) { number = 85 * number + worth[text.charCodeAt(at)]; }
    view.setUint32(to, number);
  }
  const packed = new Blob([bytes.subarray(0, LENGTH)]).stream();
  const code = await new Response(packed.pipeThrough(new DecompressionStream("gzip"))).text();
  const script = document.createElement("script");
  script.textContent = code;
  document.head.append(script);
  performance.mark("packed-figures-drawn");
  document.documentElement.dataset.drawn = "true";
})();"""


class HtmlReporter:
    """Verdict, figures, findings and tables; plotly is in the file, so it opens offline.

    It is compressed: the page is shown before it is unpacked, and has less than 2 MB.

    The same analysis gives the same bytes.
    """

    name: ClassVar[Format] = Format.HTML
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".html.gz")

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the page.

        Raises:
            MissingExtraError: plotly or jinja2 is not installed.
        """
        stream.write(html_page(analysis))


def html_page(analysis: RunAnalysis) -> str:
    """The page as text.

    Raises:
        MissingExtraError: plotly or jinja2 is not installed.
    """
    with needs_extra("The HTML report", "report"):
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs

        from hvdprof.figures.catalogue import DETAIL_FIGURES, FIGURES, figure_kind
        from hvdprof.figures.palette import PLOT_CONFIG
        from hvdprof.figures.scaling_curve import scaling_curve
        from hvdprof.figures.timeline.still import still_timeline
        from hvdprof.figures.waterfall_figure import waterfall_figure
        from hvdprof.report.document.templated import fill

    def drawn(name: str, figure: Any = None, *, title: str = "", div: str = "") -> dict[str, str]:
        kind = figure_kind(name)
        shown = kind.draw(analysis) if figure is None else figure
        place = f"figure-{div or name}"
        config = json.dumps(PLOT_CONFIG | _saved_as(analysis, name))
        code = f"const made = {shown.to_json()};"
        code += f'Plotly.newPlot("{place}", made.data, made.layout, {config});'
        scripts.append(f"{{{code}}}")
        height = shown.layout.height or _HEIGHT
        room = Markup('<div id="{}" style="height: {}px; width: 100%"></div>').format(place, height)
        return {"title": title or kind.title, "about": kind.about, "html": room}

    scripts = [get_plotlyjs(), 'Plotly.setPlotConfig({plotlyServerURL: ""});']
    first, figures = [], []
    if has_comparison(analysis):
        first = [
            drawn("scaling", scaling_curve(analysis.scaling, _LOW)),
            drawn("waterfall", waterfall_figure(analysis, compact=True)),
        ]
        others = [kind.name for kind in FIGURES if kind.name not in ("scaling", "waterfall")]
        figures = [
            drawn("waterfall", title="Every cause with its interval", div="waterfall-all"),
            *[drawn(name) for name in others],
        ]
    details = [drawn(kind.name) for kind in DETAIL_FIGURES if kind.has_data(analysis)]
    has_figures = bool(first or details)
    return fill(
        "report.html.j2",
        analysis,
        is_html=True,
        first=first,
        figures=figures,
        details=details,
        still=still_timeline(analysis),
        packed=Markup(packed_script(scripts)) if has_figures else "",
    )


def _saved_as(analysis: RunAnalysis, name: str) -> dict[str, object]:
    """The name of the file of a saved figure: it holds the run, which the figure does not."""
    return {"toImageButtonOptions": {"filename": f"{analysis.run.manifest.name}-{name}"}}


def render_page_html(page: Callable[[], Page], name: str, stream: IO[str]) -> None:
    """Write sections, findings and notes; the first verdict is the heading.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    with needs_extra("The report", "report"):
        from hvdprof.report.document.templated import fill_page
    stream.write(fill_page(page(), name))


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


def packed_script(scripts: Sequence[str]) -> str:
    """Two elements of a page: the scripts as one compressed text, and what runs them in order.

    The same scripts give the same text.

    Args:
        scripts: Sources in JavaScript; none of them may need an element that comes later.
    """
    packed = gzip.compress("\n;\n".join(scripts).encode(), 9, mtime=0)
    whole = packed + bytes(-len(packed) % 4)
    # "<" alone could begin another element, and is what the alphabet lacks a comma for.
    text = base64.b85encode(whole).decode("ascii").replace("<", ",")
    unpack = _UNPACK.replace("ALPHABET", json.dumps(_alphabet()).replace("<", ","))
    unpack = unpack.replace("LENGTH", str(len(packed)))
    return (
        f'<script type="text/plain" id="packed-figures">{text}</script>\n<script>{unpack}</script>'
    )


def _alphabet() -> str:
    """The digits of base64.b85encode: what encodes 0 to 84 is five letters, the last one it."""
    return "".join(base64.b85encode(bytes([0, 0, 0, at])).decode("ascii")[-1] for at in range(85))
