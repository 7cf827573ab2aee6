"""The finished analysis as one HTML file that needs nothing else: no network, no server."""

from typing import IO, ClassVar

from hvdprof.errors import MissingExtraError
from hvdprof.model.run import RunAnalysis
from hvdprof.report.format_names import Format


class HtmlReporter:
    """Verdict, figures, findings and tables; plotly is in the file, so it opens offline.

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

        from hvdprof.figures.catalogue import DETAIL_FIGURES, FIGURES, FigureKind
        from hvdprof.report.document.templated import fill
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hvdprof"):
            raise
        raise MissingExtraError("The HTML report", extra="report") from error

    def drawn(kind: FigureKind) -> dict[str, str]:
        figure = kind.draw(analysis).to_html(
            full_html=False,
            include_plotlyjs=False,
            div_id=f"figure-{kind.name}",
            config={"displaylogo": False, "responsive": True},
        )
        return {"title": kind.title, "about": kind.about, "html": Markup(figure)}

    return fill(
        "report.html.j2",
        analysis,
        is_html=True,
        figures=[drawn(kind) for kind in FIGURES],
        details=[drawn(kind) for kind in DETAIL_FIGURES if kind.has_data(analysis)],
        plotly_js=Markup(get_plotlyjs()),
    )
