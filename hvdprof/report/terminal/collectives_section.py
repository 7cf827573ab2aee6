"""Bus bandwidth by collective and payload, as a table in a terminal.

Tested in ``tests/ingest/kineto/test_traced_run.py``.
"""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.model.frame_row import FrameRow
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_BANDWIDTHS
from hvdprof.report.terminal.hanging_text import print_hanging

COLLECTIVE_HEADS = ("collective", "ranks", "payload", "calls", "median transfer", "median busbw")
"""What stands above the columns of a table of collectives."""

_MOST_ROWS = 8
_CAPTION = "from the last arrival to the end; busbw as nccl-tests defines it"


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One collective with payloads of one size class, as texts."""

    collective: str
    ranks: str
    payload: str
    calls: str
    transfer: str
    busbw: str


@dataclass(frozen=True, slots=True)
class CollectivesSection:
    """Collectives and sizes, those that transfer longest first; ``more`` says how many are cut."""

    caption: str
    rows: tuple[CollectiveRow, ...]
    more: str


def shape_collectives(analysis: RunAnalysis) -> CollectivesSection | None:
    """The collectives of a run; None where no bus bandwidth is known."""
    table = analysis.table(COLLECTIVE_BANDWIDTHS.name)
    if table.empty:
        return None
    rows = tuple(_row(row) for row in table.head(_MOST_ROWS).to_dict("records"))
    more = len(table) - len(rows)
    left_out = (
        f"{units.counted(more, 'more row')}: `--section {COLLECTIVE_BANDWIDTHS.name}` shows all."
    )
    return CollectivesSection(_CAPTION, rows, left_out if more else "")


def print_collectives(console: Console, section: CollectivesSection | None) -> None:
    """Print the table; nothing where no bus bandwidth is known."""
    if section is None:
        return
    console.print(Text("\nBus bandwidth", style="bold").append(f"  {section.caption}", "dim"))
    frame = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    first, *numbers = COLLECTIVE_HEADS
    frame.add_column(first, no_wrap=True)
    for name in numbers:
        frame.add_column(name, justify="right")
    for row in section.rows:
        frame.add_row(row.collective, row.ranks, row.payload, row.calls, row.transfer, row.busbw)
    console.print(frame)
    if section.more:
        print_hanging(console, "  ", section.more)


def _row(row: FrameRow) -> CollectiveRow:
    low, high = (units.byte_size(row[name]) for name in ("size_low_bytes", "size_high_bytes"))
    return CollectiveRow(
        collective=str(row["collective"]),
        ranks=units.count(row["num_ranks"]),
        payload=low if low == high else f"{low} to {high}",
        calls=units.count(row["number"]),
        transfer=units.milliseconds(float(row["transfer_median_ns"])),
        busbw=units.of_unit(float(row["busbw_median_gb_per_s"]), "GB/s"),
    )
