"""The finished analysis as people read it in a terminal: the verdict first."""

from typing import IO, ClassVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof.model.run import RunAnalysis
from hvdprof.report.format_names import Format
from hvdprof.report.screen.open_points import open_points
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import CAUSE_TITLE, Bar, Tile, tiles, verdict_cell
from hvdprof.report.sections.run_sections import attached_sections, sections_of
from hvdprof.report.terminal.report_page import CellRow, ModelTable, Page, shape_page
from hvdprof.report.terminal.section_text import (
    frame_of,
    natural_width,
    print_findings,
    print_hanging,
    print_section,
    print_verdict,
    print_whole,
    report_console,
)
from hvdprof.report.terminal.waterfall_section import print_waterfall, shape_waterfall


class TerminalReporter:
    """Verdict, caveat, waterfall, scaling, findings, ``SECTIONS``, details, warnings.

    Readable from 80 columns on; wider terminals get one line per cell. Colours only where the
    stream is a terminal.
    """

    name: ClassVar[Format] = Format.TERMINAL
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)

    def __init__(self, width: int | None = None) -> None:
        self._width = width

    def render(self, analysis: RunAnalysis, stream: IO[str]) -> None:
        """Write the analysis as text."""
        console = report_console(stream, self._width)
        page = shape_page(analysis)
        print_verdict(console, page.verdict, page.caveat)
        if page.stop:
            print_hanging(console, "", page.stop, style="dim")
        print_waterfall(console, shape_waterfall(analysis))
        print_key_numbers(console, analysis)
        for table in page.tables:
            console.print()
            _print_table(console, table)
        for section in attached_sections(analysis):
            if section.verdict:
                console.print()
            print_section(console, section)
        print_findings(console, analysis.findings)
        print_open_points(console, analysis)
        for section in sections_of(analysis):
            print_section(console, section)
        _print_failed(console, page)
        _print_skipped(console, page)
        if page.warnings:
            console.print(Text("\nWarnings", style="bold yellow"))
        for warning in page.warnings:
            print_hanging(console, "  ! ", warning)
        _print_run(console, page)


def _print_table(console: Console, table: ModelTable) -> None:
    heading = Text(table.model, style="bold cyan")
    heading.append(f"  {table.caption}", style="not bold default")
    console.print(heading)
    frames = (
        _wide_table(table),
        _narrow_table(table, tight=False),
        _narrow_table(table, tight=True),
    )
    fitting = (frame for frame in frames if natural_width(console, frame) <= console.width)
    print_whole(console, next(fitting, frames[-1]))


def _wide_table(table: ModelTable) -> Table:
    frame = frame_of(
        ("np", "right"),
        ("setting", "left"),
        ("samples/s", "right"),
        ("step time\nmedian", "right"),
        ("\np95", "right"),
        ("scaling\nefficiency", "right"),
        ("blocked\nmean", "right"),
        ("of the\nstep", "right"),
        ("trace\noverhead", "right"),
        ("final\nloss", "right"),
    )
    for row in table.rows:
        frame.add_row(
            row.np,
            row.setting,
            row.samples_per_s,
            row.step_median,
            row.step_p95,
            _efficiency(row, row.efficiency),
            row.blocked,
            row.blocked_share,
            row.trace_overhead,
            row.final_loss,
            style="dim" if row.oversubscribed else "",
            end_section=row.last_of_size,
        )
    return frame


def _narrow_table(table: ModelTable, *, tight: bool) -> Table:
    """Two lines per cell; ``tight`` breaks every interval, for numbers of many digits."""
    frame = frame_of(
        ("np", "right"),
        ("setting", "left"),
        ("samples/s", "right"),
        ("step time\nmed., p95", "right"),
        ("scaling\nefficiency", "right"),
        ("blocked\nmean", "right"),
        ("trace\noverhead", "right"),
    )
    for row in table.rows:
        frame.add_row(
            row.np,
            row.setting.replace(" ", "\n", 1),
            _interval_below(
                row.samples_per_s.replace(" ±", "\n±") if tight else row.samples_per_s, tight=tight
            ),
            f"{row.step_median}\n{row.step_p95}",
            _efficiency(row, _interval_below(row.efficiency, tight=tight)),
            f"{row.blocked}\n{row.blocked_share}",
            _interval_below(row.trace_overhead.replace("not ", "not\n"), tight=tight),
            style="dim" if row.oversubscribed else "",
            end_section=row.last_of_size,
        )
    return frame


def _efficiency(row: CellRow, text: str) -> Text:
    if row.oversubscribed:
        return Text(text, style="not dim yellow")
    return Text(text, style="dim" if row.is_wide else "bold")


def _interval_below(text: str, *, tight: bool) -> str:
    below = text.replace(" (", "\n(", 1)
    return below.replace(" to ", "\nto ", 1) if tight else below


def _print_failed(console: Console, page: Page) -> None:
    if page.failed:
        console.print(Text("\nFailed", style="bold red"))
    for cell in page.failed:
        print_hanging(console, "  ", cell.text)
        for line in cell.lines:
            print_hanging(console, "    | ", line, style="dim")


def _print_skipped(console: Console, page: Page) -> None:
    if page.skipped:
        console.print(Text("\nSkipped", style="bold"))
    for skipped in page.skipped:
        print_hanging(console, "  ", skipped.reason)
        for cells in skipped.cells:
            print_hanging(console, "    ", cells, style="dim")


def _print_run(console: Console, page: Page) -> None:
    console.print()
    print_hanging(console, "", page.where, style="dim")
    width = max((len(command) for command, _ in page.next_commands), default=0)
    for command, purpose in page.next_commands:
        line = Text(f"  {command.ljust(width)}", style="cyan")
        line.append(f"   # {purpose}", style="dim default")
        fits = len(line) <= console.width
        if not fits:
            console.print(Text(f"  # {purpose}", style="dim"))
        # A command must survive being copied, so it is never broken into lines.
        console.print(line if fits else Text(f"  {command}", style="cyan"), soft_wrap=True)


_STYLES = {"good": "green", "caution": "yellow", "bad": "red"}
_CELLS = 20


def print_key_numbers(console: Console, analysis: RunAnalysis) -> None:
    """Print the numbers that the verdict does not hold, and a line on the ranks.

    Nothing is printed without results.
    """
    cell = verdict_cell(analysis)
    if cell is None:
        return
    shown = [tile for tile in tiles(analysis) if tile.title != CAUSE_TITLE]
    width = max(len(tile.title) for tile in shown)
    console.print()
    for tile in shown:
        print_hanging(
            console, f"  {tile.title.ljust(width)}  ", _text(tile), style=_STYLES.get(tile.tone, "")
        )
    strip = rank_phases(analysis, cell)
    if strip is not None:
        print_hanging(console, f"  {'Ranks by phase'.ljust(width)}  ", strip.sentence)


def print_open_points(console: Console, analysis: RunAnalysis) -> None:
    """Print what is known, suspected and next, where no finding explains a low efficiency."""
    points = open_points(analysis)
    if points is None:
        return
    console.print(Text(f"\n{points.title}", style="bold yellow"))
    print_hanging(console, "  known: ", " ".join(points.known))
    if points.suspected:
        print_hanging(console, "  suspected: ", " ".join(points.suspected))
    print_hanging(console, "  next: ", points.next_step)
    print_hanging(console, "  > ", points.command, style="cyan")


def _text(tile: Tile) -> str:
    if tile.bar is not None:
        return f"{_bar(tile.bar)}  {tile.value}"
    if "(" in tile.detail:
        return f"{tile.value}, {tile.detail}"
    return f"{tile.value}  ({tile.detail})" if tile.detail else tile.value


def _bar(bar: Bar) -> str:
    """The value on a scale from 0 to 100 %, one character for every 5 points."""
    filled = round(min(max(bar.value, 0.0), 1.0) * _CELLS)
    return f"[{'#' * filled}{'.' * (_CELLS - filled)}]"
