"""The formats that hvdprof writes, and how one is chosen."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import IO, ClassVar, Protocol, TypeVar

from hvdprof.errors import UsageError
from hvdprof.model.run import RunAnalysis
from hvdprof.report.chrome.chrome_trace import ChromeTraceReporter
from hvdprof.report.document.html_report import HtmlReporter
from hvdprof.report.document.json_report import JsonReporter
from hvdprof.report.document.markdown_report import MarkdownReporter
from hvdprof.report.format_names import Format
from hvdprof.report.terminal.terminal_report import TerminalReporter
from hvdprof.rundir.written_file import check_new, open_whole


class CsvReporter:
    """The SCALING table, one line a cell, all digits kept; an empty field where there is none."""

    name: ClassVar[Format] = Format.CSV
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".csv.gz")

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the header of ``hvdprof.model.tables.scaling_tables.SCALING`` and its rows."""
        analysis.scaling.to_csv(stream, index=False, lineterminator="\n")


class Reporter(Protocol):
    """One format: a name, the endings of file names that choose it, and how it is written.

    Shaping and writing are two steps in every format: a function of the format's module turns
    the analysis into plain values, and ``render`` only writes these. Options of a format belong
    to its own constructor, never to ``render``.
    """

    name: ClassVar[Format]
    suffixes: ClassVar[tuple[str, ...]]

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the analysis to a text stream."""


Kind = TypeVar("Kind", bound=StrEnum)

REPORTERS: tuple[type[Reporter], ...] = (
    TerminalReporter,
    JsonReporter,
    CsvReporter,
    HtmlReporter,
    MarkdownReporter,
    ChromeTraceReporter,
)


def reporter_for(name_or_path: str | Path) -> Reporter:
    """The format of that name, or the one that the end of a file name chooses.

    The longest matching ending wins: ``scaling.json`` is the JSON report, ``np2.trace.json.gz``
    a Chrome trace.

    Raises:
        UsageError: No format has that name or such files.
    """
    wanted = Path(name_or_path).name
    for reporter in REPORTERS:
        if reporter.name == str(name_or_path):
            return reporter()
    matching = [
        (len(suffix), index)
        for index, reporter in enumerate(REPORTERS)
        for suffix in reporter.suffixes
        if wanted.endswith(suffix)
    ]
    if not matching:
        names = ", ".join(reporter.name for reporter in REPORTERS)
        endings = ", ".join(suffix for reporter in REPORTERS for suffix in reporter.suffixes)
        raise UsageError(
            f"No report format is named {str(name_or_path)!r} or has such files.",
            hint=f"Formats: {names}; file names that end in {endings}.",
        )
    return REPORTERS[max(matching)[1]]()


def format_of_file(output: Path, suffixes: Mapping[str, Kind], result: str) -> Kind:
    """The format that the end of a file name chooses; ``.gz`` after it does not count.

    Args:
        output: The file.
        suffixes: Ends of file names and what they choose.
        result: What is written, such as ``a comparison``.

    Raises:
        UsageError: No format has such files.
    """
    for suffix, chosen in suffixes.items():
        if output.name.removesuffix(".gz").endswith(suffix):
            return chosen
    raise UsageError(
        f"No format of {result} has files such as {output.name}.",
        hint=f"File names that end in {', '.join(suffixes)}; or give --format.",
    )


def write_with(
    reporter: Reporter, analysis: RunAnalysis, path: Path, *, overwrite: bool = False
) -> None:
    """Write a report file whole or not at all, compressed where its name ends in ``.gz``.

    Raises:
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    write_text(path, lambda file: reporter.render(analysis, file), overwrite=overwrite)


def check_output(path: Path, *, overwrite: bool) -> None:
    """Check, before a long measurement, that a report may be written to a file.

    Raises:
        StorageError: The file exists and may not be replaced.
    """
    check_new(path, overwrite=overwrite)


def write_text(path: Path, render: Callable[[IO[str]], object], *, overwrite: bool = False) -> None:
    """Write a text file whole or not at all, compressed where its name ends in ``.gz``.

    Args:
        path: The file.
        render: Writes the text to a stream.
        overwrite: Whether a file of that name may be replaced.

    Raises:
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    with open_whole(path, overwrite=overwrite) as file:
        render(file)
