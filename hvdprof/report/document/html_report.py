"""The finished analysis, or any page of sections, as one HTML file that needs nothing else."""

import json
from collections.abc import Callable
from typing import IO, Any, ClassVar

from hvdprof.errors import MissingExtraError
from hvdprof.model.run import RunAnalysis
from hvdprof.report.format_names import Format
from hvdprof.report.screen.file_tiles import has_comparison
from hvdprof.report.sections.section import Page

_HEIGHT = 450
"""Pixels of a figure that does not name its height: plotly's own."""

_LOW = 220
"""Pixels of a figure of the first screen."""


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
    try:
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs

        from hvdprof.figures.catalogue import DETAIL_FIGURES, FIGURES, figure_kind
        from hvdprof.figures.scaling_curve import scaling_curve
        from hvdprof.figures.style.palette import PLOT_CONFIG
        from hvdprof.figures.timeline.still import still_timeline
        from hvdprof.figures.waterfall_figure import waterfall_figure
        from hvdprof.report.document.packed_figures import packed_script
        from hvdprof.report.document.templated import fill
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hvdprof"):
            raise
        raise MissingExtraError("The HTML report", extra="report") from error

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

    Args:
        page: Makes the page.
        name: What it is about.
        stream: Where to.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from hvdprof.report.document.templated import fill_page
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hvdprof"):
            raise
        raise MissingExtraError("The report", extra="report") from error
    stream.write(fill_page(page(), name))
