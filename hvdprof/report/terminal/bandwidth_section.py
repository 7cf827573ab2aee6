"""The tables of nccl-tests in a terminal, run by run.

Tested in ``tests/cli/test_analyze_files.py``.
"""

import shlex
from collections.abc import Hashable, Sequence

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hvdprof import units
from hvdprof.report.terminal.hanging_text import print_hanging

_MOST_ROWS = 40
_MOST_RUNS = 3


def print_nccl_tests(console: Console, runs: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Write the rows of each run, the smallest messages left out where a run has many.

    What is left out is said; the row of the highest bandwidth is always shown.

    Args:
        console: Where to write.
        runs: Rows of NCCL_TEST_RUNS of all files.
        rows: Rows of NCCL_TESTS of all files.
    """
    measured = runs[(runs["num_sizes"] > 0).to_numpy()].to_dict("records")
    for run in measured[:_MOST_RUNS]:
        own = rows[((rows["file"] == run["file"]) & (rows["run"] == run["run"])).to_numpy()]
        console.print()
        if len(measured) > 1:
            console.print(Text(_title(run), style="bold cyan"), soft_wrap=True)
        _print_run(console, own)
    if len(measured) > _MOST_RUNS:
        more = units.counted(len(measured) - _MOST_RUNS, "further run")
        _print_hint(console, more, str(measured[_MOST_RUNS]["file"]))


def _title(run: dict[Hashable, object]) -> str:
    operation = f"  {run['operation']}" if run["operation"] else ""
    return f"{run['file']}:{run['line']}{operation}"


def _print_run(console: Console, rows: pd.DataFrame) -> None:
    kinds = [column for column in ("dtype", "redop", "root") if len(rows[column].unique()) > 1]
    frame = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
    names = ("size", *kinds, "out of place", "bus bandwidth", "in place", "bus bandwidth")
    for name in names:
        frame.add_column(name, justify="right", no_wrap=True, header_style="none")
    lines = rows.groupby("line", sort=True)
    shown = _shown_lines(rows)
    for line, members in lines:
        if line in shown:
            frame.add_row(*_cells(members, kinds))
    console.print(frame)
    hidden = lines.ngroups - len(shown)
    if hidden:
        smaller = f"{units.counted(hidden, 'row')} of small messages"
        _print_hint(console, smaller, str(rows.iloc[0]["file"]))


def _print_hint(console: Console, what: str, file: str) -> None:
    command = f'hvdprof sql {shlex.quote(file)} "SELECT * FROM nccl_tests"'
    print_hanging(console, "  ", f"{what} not shown: {command}")


def _shown_lines(rows: pd.DataFrame) -> set[int]:
    """The rows of the largest messages, and that of the highest bandwidth."""
    # The smallest messages say the least about bandwidth.
    first = rows.drop_duplicates("line").sort_values("size_bytes", kind="stable")
    best = int(rows.iloc[int(rows["busbw_gb_s"].to_numpy().argmax())]["line"])
    return {best, *(int(line) for line in first["line"].iloc[-_MOST_ROWS:])}


def _cells(rows: pd.DataFrame, kinds: Sequence[str]) -> list[str]:
    first = rows.iloc[0]
    cells = [units.byte_size(first["size_bytes"]), *(str(first[column]) for column in kinds)]
    for in_place in (False, True):
        cells += _measured(rows[(rows["in_place"].fillna(False) == in_place).to_numpy()])
    return cells


def _measured(rows: pd.DataFrame) -> list[str]:
    if rows.empty:
        return [units.MISSING, units.MISSING]
    row = rows.iloc[-1]
    return [units.milliseconds(float(row["time_ns"])), f"{units.rate(row['busbw_gb_s'])} GB/s"]
