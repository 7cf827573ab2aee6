"""The runs that a command reads where no path names them, or a folder of runs is given."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hvdprof import api
from hvdprof.api.run_entries import FILES, runs_below
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.plain_text import printable
from hvdprof.units import counted

if TYPE_CHECKING:
    from hvdprof.api.run_entries import RunEntry

RUNS = Path("runs")
_COMPARE = "hvdprof compare RUN_A RUN_B"
_MOST_LISTED = 10


def chosen_paths(given: Sequence[Path] | None, command: str) -> list[Path]:
    """The paths to read: those given, else the newest run of ``./runs``.

    A folder with one run directory in it stands for this run. Standard error names what is read.

    Args:
        given: The paths on the command line.
        command: What to type for one run, with RUN in its place: ``hvdprof analyze RUN``.

    Raises:
        UsageError: No path is given, and there is no run.
        UnreadableInputError: A folder holds several run directories.
    """
    if not given:
        runs = _runs_here()
        if not runs:
            raise UsageError(f"No path is given, and ./{RUNS} holds no run.", hint=command)
        return [_read(runs[0], f"the newest run in ./{RUNS}")]
    return [run_of(given[0], command)] if len(given) == 1 else list(given)


def run_of(path: Path, command: str) -> Path:
    """The only run directory in a folder; any other path as it is. Raises as ``chosen_paths``."""
    runs = _runs_in(path)
    if not runs:
        return path
    if len(runs) == 1:
        beside = runs_below(path).skipped.get(FILES, 0)
        left_out = f"; {counted(beside, 'file')} beside it not read" if beside else ""
        return _read(runs[0], f"the only run directory in {path}{left_out}")
    lines = [run_line(entry) for entry in runs[:_MOST_LISTED]]
    if more := len(runs) - len(lines):
        lines.append(f"and {more} more")
    raise UnreadableInputError(
        "\n  ".join([f"{path} holds {len(runs)} run directories. Name one:", *lines]),
        hint=command.replace("RUN", shlex.quote(str(runs[0].folder)), 1),
    )


def chosen_pair(given: Sequence[Path]) -> tuple[Path, Path]:
    """The two runs to compare, the baseline first.

    Without a path the two newest of ``./runs``, in a folder of two run directories these, beside
    one run the newest other one of ``./runs``. The older one is the baseline.

    Raises:
        UsageError: There are not two.
        UnreadableInputError: A folder holds more run directories.
    """
    if len(given) > 2:
        raise UsageError(f"Two runs are compared, not {len(given)}.", hint=_COMPARE)
    if len(given) == 2:
        first, second = (run_of(path, "hvdprof compare RUN RUN_B") for path in given)
        return first, second
    inside = _runs_in(given[0]) if given else _runs_here()[:2]
    if len(inside) == 2:
        return _read(inside[1], "the baseline"), _read(inside[0], "the newer run")
    if not given:
        raise UsageError(f"No path is given, and ./{RUNS} holds no two runs.", hint=_COMPARE)
    run = run_of(given[0], "hvdprof compare RUN RUN_B")
    here = _runs_here() if api.is_run_directory(run) else []
    others = [entry for entry in here if entry.folder.resolve() != run.resolve()]
    if not others:
        raise UsageError("Two runs are compared, not 1.", hint=_COMPARE)
    other = _read(others[0], f"the newest other run in ./{RUNS}")
    return (run, other) if others[0] is here[0] else (other, run)


def _runs_in(folder: Path) -> "Sequence[RunEntry]":
    """The run directories in a folder, newest first; none where it is one itself."""
    if api.is_run_directory(folder) or not folder.is_dir():
        return ()
    return api.list_runs(folder)


def _runs_here() -> "list[RunEntry]":
    """Those of ``./runs`` that can be read, newest first."""
    return [entry for entry in _runs_in(RUNS) if not entry.problem]


def _read(entry: "RunEntry", which: str) -> Path:
    sys.stderr.write(f"hvdprof: reading {run_line(entry)}: {which}\n")
    return entry.folder


def run_line(entry: "RunEntry") -> str:
    """A run directory with the time at which it began, in UTC."""
    began = entry.created_at and f"{entry.created_at[:16].replace('T', ' ')} UTC"
    return printable(f"{entry.folder} ({began or entry.problem})")
