"""What a command answers, written in every format that it has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO

import pandas as pd

from hvdprof.report.document.html_report import render_page_html
from hvdprof.report.document.section_markdown import write_markdown
from hvdprof.report.format_names import Format
from hvdprof.report.json_values import JsonObject, write_json
from hvdprof.report.sections.section import Page
from hvdprof.report.terminal.section_text import print_page, report_console


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished result; nothing is shaped before it is written.

    Attributes:
        page: Makes what readers see: terminal, Markdown and HTML.
        json: Makes what programs read.
        others: What writes a format that pages and objects do not give, such as CSV, by its name.
        name: What it is about, for the title of a page in HTML.
    """

    page: Callable[[], Page]
    json: Callable[[], JsonObject]
    others: Mapping[str, Callable[[IO[str]], object]] = field(default_factory=dict)
    name: str = "hvdprof"

    def write(self, format_: str, stream: IO[str], *, width: int | None = None) -> None:
        """Write one format.

        Args:
            format_: Its name; what has no writer of its own is terminal text.
            stream: Where to.
            width: Columns of a terminal to write for; its own, or 80, where not given.

        Raises:
            StorageError: A format that also writes elsewhere could not.
            MissingExtraError: HTML without jinja2.
        """
        name = str(format_)
        if name in self.others:
            self.others[name](stream)
        elif name == str(Format.JSON):
            write_json(self.json(), stream)
        elif name == str(Format.MARKDOWN):
            write_markdown(self.page(), stream)
        elif name == str(Format.HTML):
            render_page_html(self.page, self.name, stream)
        else:
            print_page(report_console(stream, width), self.page())


def rows_csv(rows: pd.DataFrame) -> Mapping[str, Callable[[IO[str]], object]]:
    """The CSV of an answer that is rows of one table: all digits kept."""
    return {str(Format.CSV): partial(rows.to_csv, index=False, lineterminator="\n")}
