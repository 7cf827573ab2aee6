"""The finished analysis as Markdown, to be pasted into an issue or a pull request."""

from typing import IO, ClassVar

from hvdprof.errors import needs_extra
from hvdprof.model.run import RunAnalysis
from hvdprof.report.format_names import Format


class MarkdownReporter:
    """Verdict, one table a model, findings, what failed, warnings, where it ran."""

    name: ClassVar[Format] = Format.MARKDOWN
    suffixes: ClassVar[tuple[str, ...]] = (".md",)

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the page.

        Raises:
            MissingExtraError: jinja2 is not installed.
        """
        with needs_extra("The Markdown report"):
            from hvdprof.report.document.templated import fill
        text = fill("report.md.j2", analysis, is_html=False)
        stream.write(without_runs_of_empty_lines(text))


def without_runs_of_empty_lines(text: str) -> str:
    """Markdown with at most one empty line in a row, and none at its ends."""
    lines: list[str] = []
    for line in text.splitlines():
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n"
