"""A table of somebody's scaling, typed or exported: numbers of ranks and how fast each was."""

import re
from collections.abc import Iterable

import pandas as pd

from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.ingest.printed_lines import PrintedLine
from hvdprof.ingest.throughput_table import ThroughputTable
from hvdprof.model.log_tables import THROUGHPUT

SAMPLES_PER_S, STEPS_PER_S, S_PER_STEP, MS_PER_STEP = "samples/s", "steps/s", "s/step", "ms/step"
UNITS = (SAMPLES_PER_S, STEPS_PER_S, S_PER_STEP, MS_PER_STEP)

_PAIRS = re.compile(r"^(?:\s*\d{1,7}\s*:\s*\d+(?:\.\d+)?[\s,;]*)+$")
_PAIR = re.compile(r"(\d+)\s*:\s*(\d+(?:\.\d+)?)")
_OWN_RATE = re.compile(
    r"^(?:(?:steps|iterations|iters?|its?|batches)_?(?:/|per|_per)_?(?:s|sec|second)"
    r"|(?:s|sec|seconds|ms|milliseconds)_?(?:/|per|_per)_?(?:step|iteration|iter|it|batch)"
    r"|(?:step|iteration|batch)_?time(?:_?\(?m?s(?:ec)?\)?)?|time)\b"
)


def read_scaling_text(
    lines: Iterable[str], *, name: str, unit: str = SAMPLES_PER_S, strong: bool = False
) -> pd.DataFrame:
    """THROUGHPUT of a table in CSV, tab-separated, Markdown, or pairs such as ``8:6679 16:12828``.

    Steps and times of steps become rates of the whole job: under weak scaling every rank brings a
    batch of its own to a step, so the job's rate is the steps times the ranks (in batches a
    second); under strong scaling a step is the same work at every size.

    Args:
        lines: The text.
        name: What messages and rows call it.
        unit: One of ``UNITS``.
        strong: The batch of all ranks together is the same at every size.

    Raises:
        UsageError: There is no such unit.
        UnreadableInputError: There are no two rows of a number of ranks and a number above 0.
    """
    if unit not in UNITS:
        raise UsageError(f"--unit {unit}: not known.", hint=f"Known: {', '.join(UNITS)}")
    reader = ThroughputTable(name, own_rate=None if unit == SAMPLES_PER_S else _OWN_RATE)
    for number, text in enumerate(lines, start=1):
        pairs = _PAIR.findall(text) if _PAIRS.match(text) else None
        for line in [text] if pairs is None else [f"{size},{rate}" for size, rate in pairs]:
            reader.take(PrintedLine(number, line.rstrip("\n"), None))
    table = reader.tables()[THROUGHPUT.name]
    valid = table[table["samples_per_s"] > 0]
    if valid["np"].nunique() < 2:
        raise UnreadableInputError(
            f"{name} holds no table of two numbers of ranks or more.",
            hint="Two columns, np and samples/s, or pairs: echo 1:872 8:6679 | hvdprof scaling -",
        )
    return valid.assign(samples_per_s=_rates(valid, unit, strong=strong))


def _rates(table: pd.DataFrame, unit: str, *, strong: bool) -> "pd.Series[float]":
    given = table["samples_per_s"]
    if unit == SAMPLES_PER_S:
        return given
    if unit in (S_PER_STEP, MS_PER_STEP):
        given = (1e3 if unit == MS_PER_STEP else 1.0) / given
    return given if strong else given * table["np"]
