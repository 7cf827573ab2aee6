"""``%%hvdprof run --np 2``: a cell of a notebook is written to a file and run as a script."""

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hvdprof import api
from hvdprof.api.analysis import Analysis
from hvdprof.errors import UsageError

RUNS = Path("runs")
_EXAMPLE = "%%hvdprof run --np 2"
_OUTPUTS = ("-o", "--output")


class Shell(Protocol):
    """What is used of IPython's shell."""

    def register_magic_function(
        self, func: Callable[[str, str], object], magic_kind: str, magic_name: str
    ) -> None:
        """Make a function a magic."""


def register(shell: Shell) -> None:
    """Make ``%%hvdprof`` a magic of this notebook."""
    shell.register_magic_function(measure_cell, "cell", "hvdprof")


def measure_cell(line: str, cell: str) -> Analysis | None:
    """Measure the cell as a script of its own.

    Nothing of the notebook is seen by the script: it imports what it needs. Progress and errors
    appear below the cell while it runs.

    Args:
        line: ``run`` and its options; the run directory is ``runs/TIME-cell`` without --output.
        cell: The script.

    Returns:
        The analysis, also of what was measured before a failure; None where nothing was.

    Raises:
        UsageError: The line is not ``run`` with its options.
    """
    command, *options = shlex.split(line) or [""]
    if command != "run" or "--" in options:
        raise UsageError(f"%%hvdprof {line.strip()}: a cell is a script to run.", hint=_EXAMPLE)
    folder = RUNS / time.strftime("%Y%m%d-%H%M%S-cell")
    for place, word in enumerate(options[:-1]):
        folder = Path(options[place + 1]) if word in _OUTPUTS else folder
    if not set(_OUTPUTS) & set(options):
        options += ["--output", str(folder)]
    folder.parent.mkdir(parents=True, exist_ok=True)
    script = folder.with_name(f"{folder.name}.py")
    script.write_text(cell, encoding="utf-8")
    _run([command, *options, "--", "python", str(script)])
    return api.analyze_run(folder) if api.is_run_directory(folder) else None


def _run(words: list[str]) -> None:
    """Run the command; an interruption of the cell is one of the measurement."""
    started = [sys.executable, "-m", "hvdprof", *words]
    # The report goes nowhere: the notebook shows the returned analysis.
    with subprocess.Popen(
        started, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _show_errors(process)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            _show_errors(process)


def _show_errors(process: "subprocess.Popen[str]") -> None:
    for line in process.stderr or ():
        sys.stderr.write(line)
