"""Processor time of short commands: ``python -m benchmarks.start RUN --repeats 9``.

Each is a process of its own; the commands take turns, and medians are shown, also as multiples of
``import pandas`` in the same turns: other work on the machine makes both longer.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.page_section import write_section

UNIT = "`import pandas`"
FRESH = "`hvdprof analyze RUN`"
COMPLETION = "completion of `hvdprof run --lau`"
_HVDPROF = ("-m", "hvdprof")
_ANALYZE = (*_HVDPROF, "analyze")
_COMPLETING = {
    "_HVDPROF_COMPLETE": "complete_bash",
    "COMP_WORDS": "hvdprof run --lau",
    "COMP_CWORD": "2",
}
_VARIABLES = {COMPLETION: _COMPLETING, FRESH: {"HVDPROF_ANALYSIS_CACHE": "0"}}


def main() -> None:
    """Print the table, and put it into a page with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("run", type=Path, help="a run directory, such as of the preset quick")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args()
    table = table_of(measured(starts(options.run), options.repeats))
    print(table)
    if options.write:
        write_section(options.write, "start", table)


def starts(run: Path) -> dict[str, tuple[str, ...]]:
    """The arguments of each start for Python, by its name in the table."""
    return {
        UNIT: ("-c", "import pandas"),
        "`hvdprof --version`": (*_HVDPROF, "--version"),
        "`hvdprof --help`": (*_HVDPROF, "--help"),
        "`hvdprof analyze --help`": (*_HVDPROF, "analyze", "--help"),
        COMPLETION: (*_HVDPROF,),
        "`import hvdprof.api`": ("-c", "import hvdprof.api"),
        FRESH: (*_ANALYZE, str(run)),
        "`hvdprof analyze RUN`, again": (*_ANALYZE, str(run)),
    }


def measured(of: Mapping[str, Sequence[str]], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of each start, the starts in turn; one before them is not counted."""
    found: dict[str, list[float]] = {name: [] for name in of}
    for turn in range(repeats + 1):
        for name, arguments in of.items():
            seconds = seconds_of(arguments, _VARIABLES.get(name, {}))
            if turn:
                found[name].append(seconds)
    return found


def seconds_of(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> float:
    """CPU seconds of Python with some arguments, and further variables of its environment.

    Raises:
        RuntimeError: It failed.
    """
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(variables or {})},
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def table_of(found: Mapping[str, Sequence[float]]) -> str:
    """Medians in seconds, and as multiples of the unit in the same turn."""
    lines = [f"| start | CPU seconds | to {UNIT} |", "|---|---|---|"]
    for name, seconds in found.items():
        ratios = [one / unit for one, unit in zip(seconds, found[UNIT], strict=True)]
        middle, ratio = statistics.median(seconds), statistics.median(ratios)
        lines.append(f"| {name} | {middle:.2f} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
