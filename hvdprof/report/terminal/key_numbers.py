"""The numbers of the first screen in a terminal, and the rank that differs most.

Tested in ``tests/report/terminal/test_terminal_report.py``.
"""

from rich.console import Console
from rich.text import Text

from hvdprof.model.run import RunAnalysis
from hvdprof.report.screen.open_points import open_points
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import CAUSE_TITLE, Bar, Tile, tiles, verdict_cell
from hvdprof.report.terminal.hanging_text import print_hanging

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
    return f"{tile.value}  ({tile.detail})" if tile.detail else tile.value


def _bar(bar: Bar) -> str:
    """The value on a scale from 0 to 100 %, one character for every 5 points."""
    filled = round(min(max(bar.value, 0.0), 1.0) * _CELLS)
    return f"[{'#' * filled}{'.' * (_CELLS - filled)}]"
